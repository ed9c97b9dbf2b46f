"""Checks the flag --namespace-selector at start, before a watch fails because of it again and
again.

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
    """Return `selector`. An empty one selects everything. Raises ValueError if it is not a legal
    label selector.
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
