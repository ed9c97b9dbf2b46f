"""Runs each of the sidecar's threads for ever: a failed step is logged and tried again after a
pause."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
    wait_random_exponential,
)


def repeat(
    step: Callable[[], None],
    stop: Event,
    failed: Callable[[BaseException], None],
    *,
    turn: Callable[[], None],
    longest: float,
) -> None:
    """Call `step` until `stop` is set, and `turn` before each time.

    After a failure `failed` is told, and the pause is random, up to 0.1 s, which doubles with every
    failure in a row up to `longest` seconds: peers that lost the same server do not come back all
    at once.
    """

    def tell(state: RetryCallState) -> None:
        if state.outcome and (error := state.outcome.exception()):
            failed(error)

    retrying = Retrying(
        retry=retry_if_exception_type(Exception),
        wait=wait_random_exponential(multiplier=0.1, max=longest),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=tell,
        retry_error_callback=lambda _: None,
    )

    def go_on() -> None:
        turn()
        step()

    while not stop.is_set():
        retrying(go_on)
