"""A liveness probe like the kubelet's: exits with 1 after enough failures in a row.

Run by the supervisor as `python -m fairlead.clusters.embedded.probe JSON`, with the fields of a
Probe (see server). It is a process of its own, so that no answer that stays away holds up the
supervisor. Standard library only.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request

STARTING = 1.0
"""Seconds between two looks at a server that is starting, so that one which hangs soon
afterwards is not given its `startup` time."""


def failure(url: str, timeout: float) -> str | None:
    """Why `url` does not answer 2xx within `timeout` seconds; None where it does.

    No certificate is verified, as kubelets do not either: no secret is sent, and a certificate that
    ended must not get the server killed.
    """
    try:
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_anyone())
        with urllib.request.build_opener(*handlers).open(url, timeout=timeout):
            return None
    except (
        OSError,
        ValueError,
    ) as error:  # urllib's errors are OSErrors, those of a malformed answer ValueErrors
        return str(error)


def watch(url: str, *, period: float, timeout: float, failures: int, startup: float) -> str:
    """Return why, once `failures` looks in a row have failed; before the first success once
    `startup` is over.

    Times in seconds; a look each `period`, and until the first success each STARTING.
    """
    begun, seen, failed = time.monotonic(), False, 0
    while True:
        looked = time.monotonic()
        why = failure(url, timeout)
        if why is None:
            seen, failed = True, 0
        else:
            failed += 1
            if failed >= failures and (seen or time.monotonic() - begun >= startup):
                return f"{url} failed {failed} times in a row: {why}"
        pause = period if seen else min(period, STARTING)
        time.sleep(max(0.0, looked + pause - time.monotonic()))


def _anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def main() -> None:
    """Watch as the only argument says."""
    options = json.loads(sys.argv[1])
    why = watch(options.pop("url"), **options)
    sys.exit(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} liveness probe: {why}")


if __name__ == "__main__":
    main()
