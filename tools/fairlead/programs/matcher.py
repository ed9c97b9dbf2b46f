"""Runs the program `fairlead-matcher`, which says by API servers' own code what they would do. Its
source is tools/matcher."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import toolchain

_WITHIN = 300
"""Seconds within which it must end."""
_BATCH = 2500
"""Reviews for one process. It answers 1,000 in a second."""


def answers(
    question: Mapping[str, Any], reviews: Sequence[Any], progress: Progress
) -> list[dict[str, Any]]:
    """The answers to a question about `reviews`, in their order. See `ask`."""
    return [
        answer
        for start in range(0, len(reviews), _BATCH)
        for answer in ask({**question, "reviews": reviews[start : start + _BATCH]}, progress)[
            "answers"
        ]
    ]


def ask(question: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The program's answer to one question; tools/matcher/main.go describes both.

    Raises FairleadError if the program cannot be built or fails.
    """
    program = toolchain.ensure([toolchain.MATCHER], progress)[toolchain.MATCHER]
    try:
        completed = subprocess.run(
            [program],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FairleadError(f"{program.name} did not end within {_WITHIN} s") from error
    if completed.returncode:
        raise FairleadError(f"{program.name}: {completed.stderr.strip()}")
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer
