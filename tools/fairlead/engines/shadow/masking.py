"""Shows objects without what may be a secret, for examples of disagreements.

As policies/log.rego does for decision logs, it lists what is shown, and not what is hidden. The
structure stays, so that one sees which fields there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
LONGEST = 2000
"""The most characters of an object, as JSON."""
_LONGEST_TEXT = 256
_MOST = 32
"""The most entries of a list or map."""
_ANY = "*"
# The ends of paths, without the numbers of lists, at which a value is shown.
_SHOWN = {
    ("apiVersion",),
    ("kind",),
    ("name",),
    ("namespace",),
    ("generateName",),
    ("nodeName",),
    ("image",),
    ("imagePullPolicy",),
    ("replicas",),
    ("restartPolicy",),
    ("runAsNonRoot",),
    ("runAsUser",),
    ("runAsGroup",),
    ("fsGroup",),
    ("privileged",),
    ("labels", _ANY),
    ("matchLabels", _ANY),
    ("nodeSelector", _ANY),
    ("tolerations", _ANY),
    ("limits", _ANY),
    ("requests", _ANY),
    ("annotations", "fairlead.dev/assigned"),
    ("annotations", "kubernetes.io/config.mirror"),
}


def masked(value: Any) -> Any:
    """The value with HIDDEN in the place of each text and number that is not known to be harmless,
    and shorter where it is long.
    """
    return _masked(value, ())


def text(value: Any) -> str:
    """The masked value as JSON, without its end if it is long."""
    written = json.dumps(masked(value), sort_keys=True)
    return written if len(written) <= LONGEST else f"{written[:LONGEST]}..."


def cut(message: str, longest: int = 500) -> str:
    """The message as it can be shown in a terminal: in one line, and not longer than that."""
    plain = "".join(each if each.isprintable() else " " for each in message)
    return plain if len(plain) <= longest else f"{plain[:longest]}..."


def _masked(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        some = list(value.items())[:_MOST]
        shown = {cut(key, _LONGEST_TEXT): _masked(part, (*path, key)) for key, part in some}
        left = len(value) - len(some)
        return shown | ({"...": f"{left} more"} if left else {})
    if isinstance(value, list):
        left = len(value) - _MOST
        return [_masked(part, path) for part in value[:_MOST]] + (
            [f"{left} more"] if left > 0 else []
        )
    if value is None or isinstance(value, bool):
        return value
    ends = {path[-1:], path[-2:], (*path[-2:-1], _ANY)}
    if not ends & _SHOWN:
        return HIDDEN
    return cut(value, _LONGEST_TEXT) if isinstance(value, str) else value
