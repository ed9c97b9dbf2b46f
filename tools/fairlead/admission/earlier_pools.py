"""Tells what pools gave to stored pods from what their authors wrote: Fairlead may have placed them
before their namespace moved to another pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.deployment import history_log
from fairlead.settings.models import Settings, Toleration

Object = Mapping[str, Any]

FIELDS = ("nodeSelector", "tolerations")
"""The fields of a pod's spec that pools give."""


class Pools:
    """What the pools of these settings give to pods."""

    def __init__(self, *settings: Settings) -> None:
        self.keys = {key for each in settings for key in each.pool_keys()}
        self._tolerations = [
            _document(toleration)
            for each in settings
            for pool in (each.pools or {}).values()
            for toleration in pool.tolerations
        ]

    def give(self, toleration: Object) -> bool:
        """Whether a pool gives this toleration."""
        return {"operator": "Equal", **toleration} in self._tolerations

    def without(self, pod: Object, template: Object | None) -> dict[str, Any]:
        """The spec of a stored pod without what a pool gave it, and its author did not write.

        `template` made the pod, if that is known: it has what the author wrote. Otherwise the pod's
        metadata.managedFields says who wrote which field; API servers record that before they call
        webhooks. Each of FIELDS is recorded as a whole, so what pools added to that of the author
        counts as the author's, too. Without any record, all does.
        """
        spec, author = pod["spec"], _author(pod, template)
        selector = {
            key: value
            for key, value in (spec.get("nodeSelector") or {}).items()
            if key not in self.keys or (author.get("nodeSelector") or {}).get(key) == value
        }
        tolerations = [
            toleration
            for toleration in spec.get("tolerations") or ()
            if not self.give(toleration) or toleration in (author.get("tolerations") or ())
        ]
        rest = {key: value for key, value in spec.items() if key not in FIELDS}
        return {
            **rest,
            **({"nodeSelector": selector} if selector else {}),
            **({"tolerations": tolerations} if tolerations else {}),
        }


def of_cluster(cluster: Cluster, *settings: Settings) -> Pools:
    """The pools that may have placed the cluster's pods: those of these settings, and of every
    deployment in the history.
    """
    return Pools(*settings, *history_log.earlier_settings(cluster.objects()))


def given(spec: Object) -> tuple[Any, Sequence[Any]]:
    """What pools may give, in a form to compare."""
    tolerations = ({"operator": "Equal", **each} for each in spec.get("tolerations") or ())
    return spec.get("nodeSelector") or {}, sorted(map(_key, tolerations))


def _author(pod: Object, template: Object | None) -> Object:
    """The part of a spec that the author of the pod wrote."""
    if template is not None:
        return dict(template.get("spec") or {})
    managed = pod["metadata"].get("managedFields") or ()
    recorded = {field for entry in managed for field in _of_spec(entry)}
    if not recorded:
        return dict(pod["spec"])
    return {field: pod["spec"].get(field) for field in FIELDS if f"f:{field}" in recorded}


def _of_spec(entry: Object) -> Iterable[str]:
    """The fields of the spec that somebody wrote, such as `f:nodeSelector`."""
    return () if entry.get("subresource") else (entry.get("fieldsV1") or {}).get("f:spec") or ()


def _document(toleration: Toleration) -> dict[str, Any]:
    return toleration.model_dump(by_alias=True, exclude_none=True)


def _key(toleration: Object) -> list[tuple[str, str]]:
    return sorted((key, str(value)) for key, value in toleration.items())
