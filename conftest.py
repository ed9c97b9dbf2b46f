"""What holds for all tests."""

from __future__ import annotations

import signal

import hypothesis

# A shell starts background jobs with SIGINT ignored, and programs inherit that: those that tests
# interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's business.
hypothesis.settings.register_profile("fairlead", deadline=None)
hypothesis.settings.load_profile("fairlead")
