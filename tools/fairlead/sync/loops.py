"""The loop of each of the sidecar's threads: repeats a step for ever, and retries a failed one
after a pause."""

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
    """Call `turn`, then `step`, again and again until `stop` is set.

    If a step fails, `failed` gets the exception, and a random pause follows. The pause is up to
    0.1 s after the first failure and doubles with every failure in a row, up to `longest` seconds.
    It is random so that peers that lost the same server do not return all at once.
    """

    def report(state: RetryCallState) -> None:
        if state.outcome and (error := state.outcome.exception()):
            failed(error)

    retrying = Retrying(
        retry=retry_if_exception_type(Exception),
        wait=wait_random_exponential(multiplier=0.1, max=longest),
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=report,
        retry_error_callback=lambda _: None,
    )

    def turn_and_step() -> None:
        turn()
        step()

    while not stop.is_set():
        retrying(turn_and_step)
