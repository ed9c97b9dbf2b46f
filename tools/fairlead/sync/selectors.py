"""Checks a label selector before it is sent: an API server would be asked with it again and again.

Source: Kubernetes documentation, "Labels and Selectors", and the grammar of
k8s.io/apimachinery/pkg/labels.
"""

from __future__ import annotations

import re

from fairlead.kube import labels

_WORD = r"[^\s,=!<>()]+"
_REQUIREMENT = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_WORD})"
    rf"|(?P<key>{_WORD})(?:\s*(?:==|=|!=|<|>)\s*(?P<value>(?:{_WORD})?)|\s+(?:in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def check(selector: str) -> str:
    """`selector`, where it is a legal label selector; empty is legal and selects all. Raises
    ValueError.
    """
    position = 0
    while position < len(selector):
        match = _REQUIREMENT.match(selector, position)
        if match is None:
            raise ValueError(
                f"{selector!r} is not a label selector, such as 'agentpool' or 'env in (prod, "
                "test), !legacy'"
            )
        labels.check_key(match["absent"] or match["key"])
        for value in (match["values"] or match["value"] or "").split(","):
            labels.check_value(value.strip())
        position = match.end()
    return selector
