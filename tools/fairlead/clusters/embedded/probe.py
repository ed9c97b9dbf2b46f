"""A liveness probe like the kubelet's: exits with 1 after enough failures in a row.

Run by the supervisor as `python -m fairlead.clusters.embedded.probe JSON`, with the fields of a
Probe (see server). It is a process of its own, so that an answer that does not come cannot block
the supervisor. Nothing but the standard library and the spelling of times.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request

from fairlead.common import texts

STARTING = 1.0
"""Seconds between two checks of a server that is starting. If a server hangs soon after its
start, its `startup` time does not count."""


def failure(url: str, timeout: float, context: ssl.SSLContext | None = None) -> str | None:
    """Why `url` does not answer 2xx within `timeout` seconds; None if it does.

    Without a `context`, no certificate is verified, as kubelets do not verify any: no secret is
    sent, and a certificate that has ended must not get the server killed.
    """
    try:
        https = urllib.request.HTTPSHandler(context=context or _anyone())
        handlers = urllib.request.ProxyHandler({}), https
        with urllib.request.build_opener(*handlers).open(url, timeout=timeout):
            return None
    except (
        OSError,
        ValueError,
    ) as error:  # urllib's errors are OSErrors; a malformed answer raises a ValueError
        return str(error)


def watch(url: str, *, period: float, timeout: float, failures: int, startup: float) -> str:
    """Return the reason once `failures` checks in a row have failed; before the first success, once
    `startup` is over.

    Times are in seconds. There is a check each `period`, and each STARTING before the first
    success.
    """
    start, answered, failed = time.monotonic(), False, 0
    while True:
        looked = time.monotonic()
        reason = failure(url, timeout)
        if reason is None:
            answered, failed = True, 0
        else:
            failed += 1
            if failed >= failures and (answered or time.monotonic() - start >= startup):
                return f"{url} failed {failed} times in a row: {reason}"
        pause = period if answered else min(period, STARTING)
        time.sleep(max(0.0, looked + pause - time.monotonic()))


def _anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def main() -> None:
    """Watch as the argument says."""
    options = json.loads(sys.argv[1])
    reason = watch(options.pop("url"), **options)
    sys.exit(f"{texts.now()} liveness probe: {reason}")


if __name__ == "__main__":
    main()
