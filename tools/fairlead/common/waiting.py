"""Waits for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import tenacity

from fairlead.common.errors import FairleadError

T = TypeVar("T")


def until(
    check: Callable[[], T | None],
    *,
    deadline: float,
    what: str,
    pause: float = 0.05,
    since: float | None = None,
) -> T:
    """Call `check` until its result is neither None nor False, and return that. The first pause
    between two calls lasts `pause` seconds, and each is a tenth longer than the one before, up to
    five times as long: what takes long needs no frequent looks.

    A FairleadError of `check` counts as no result. After `deadline` seconds, raises a FairleadError
    that says that `what` did not happen, and the last error. They count from `since`
    (time.monotonic), by default from now; `check` is called once in any case.
    """
    passed = 0.0 if since is None else time.monotonic() - since
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(FairleadError)
        | tenacity.retry_if_result(lambda r: r is None or r is False),
        stop=tenacity.stop_after_delay(max(0.0, deadline - passed)),
        wait=tenacity.wait_exponential(multiplier=pause, exp_base=1.1, max=5 * pause),
    )
    try:
        result = attempts(check)
    except tenacity.RetryError as error:
        attempt = error.last_attempt
        cause = attempt.exception() if attempt.failed else None
        raise FairleadError(
            f"this did not happen within {deadline:g} s: {what}" + (f" ({cause})" if cause else "")
        ) from cause
    if result is None:  # for the type checker: the retries end with a result or an error
        raise FairleadError(what)
    return result
