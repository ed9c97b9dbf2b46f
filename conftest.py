"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell starts background jobs with SIGINT ignored, and programs inherit that: those that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
