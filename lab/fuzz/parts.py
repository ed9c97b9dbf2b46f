"""What requests about any policy are made of, as strategies of hypothesis."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st

from fairlead.engines.python.pods import TEMPLATES
from fairlead.kube import admission_reviews

Strategy = st.SearchStrategy[Any]
_VERSIONS = {"": "v1", "apps": "apps/v1", "batch": "batch/v1"}


def some(**fields: Strategy) -> Strategy:
    """A mapping with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def manifests(kind: str, metadata: Strategy, template: Strategy) -> Strategy:
    """Objects of a kind, `group/Kind`: one of TEMPLATES with the pod `template` ({metadata, spec}),
    or a namespace, which has none. A pod has the template's spec.
    """
    if kind == "/Namespace":
        template = st.just({})
    return st.builds(functools.partial(_manifest, kind), metadata, template)


def _manifest(
    kind: str, metadata: Mapping[str, Any], template: Mapping[str, Any]
) -> dict[str, Any]:
    group, _, name = kind.partition("/")
    body: Any = template
    for key in reversed(TEMPLATES.get(kind, ())):
        body = {key: body}
    return {**body, "apiVersion": _VERSIONS[group], "kind": name, "metadata": metadata}


def review(manifest: Mapping[str, Any], **of: Any) -> Strategy:
    """The review of a request in one of the two namespaces; `of` is as for
    admission_reviews.build.
    """
    return st.sampled_from(("payments", "training")).map(
        lambda namespace: _identified(admission_reviews.build(manifest, namespace=namespace, **of))
    )


def _identified(built: dict[str, Any]) -> dict[str, Any]:
    """The review with a uid that is always the same."""
    return {**built, "request": {**built["request"], "uid": "42"}}
