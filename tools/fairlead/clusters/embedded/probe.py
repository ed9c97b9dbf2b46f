"""A liveness probe, as the kubelet's: ends with 1 as soon as what it asks has failed too often in a row.

Run by the supervisor as `python -m fairlead.clusters.embedded.probe JSON`, with the fields of a Probe (see server).
It is a process of its own, so that no answer that stays away holds up the supervisor. Standard library only.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request


def failure(url: str, ca: str, timeout: float) -> str | None:
    """Why `url` does not answer 2xx within `timeout` seconds; None where it does. `ca` is read each time anew."""
    try:
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_trust(ca))
        with urllib.request.build_opener(*handlers).open(url, timeout=timeout):
            return None
    except (OSError, ValueError) as error:  # urllib's errors are OSErrors, those of a malformed answer ValueErrors
        return str(error)


def watch(url: str, ca: str, *, period: float, timeout: float, failures: int, startup: float) -> str:
    """Return why, once `failures` looks in a row have failed; before the first success once `startup` is over.

    Times in seconds; a look each `period`.
    """
    begun, seen, failed = time.monotonic(), False, 0
    while True:
        why = failure(url, ca, timeout)
        if why is None:
            seen, failed = True, 0
        else:
            failed += 1
            if failed >= failures and (seen or time.monotonic() - begun >= startup):
                return f"{url} failed {failed} times in a row: {why}"
        time.sleep(period)


def _trust(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def main() -> None:
    """Watch as the only argument says."""
    options = json.loads(sys.argv[1])
    why = watch(options.pop("url"), options.pop("ca"), **options)
    sys.exit(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} liveness probe: {why}")


if __name__ == "__main__":
    main()
