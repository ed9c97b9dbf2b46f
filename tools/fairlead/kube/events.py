"""Makes Events, which tell people what happened to an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fairlead.common import texts

LONGEST = 1024
"""The most characters of a message. Source: legacyValidateEvent of Kubernetes."""


def event(
    kind: Literal["Normal", "Warning"],
    reason: str,
    message: str,
    *,
    about: Mapping[str, str],
    component: str,
) -> dict[str, Any]:
    """An Event in the namespace of `about`, a reference with apiVersion, kind, name and
    namespace. The namespace is needed for an object without one, too: API servers accept no Event
    in another namespace than its object's.
    """
    now = texts.now()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{component}-", "namespace": about["namespace"]},
        "involvedObject": dict(about),
        "type": kind,
        "reason": reason,
        "message": message[:LONGEST],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": component},
    }
