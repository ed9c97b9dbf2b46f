"""Where Kubernetes' own workloads have the template of their pods."""

from __future__ import annotations

from collections.abc import Mapping

_USUAL = ("spec", "template")

TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): _USUAL,
    ("apps", "DaemonSet"): _USUAL,
    ("apps", "StatefulSet"): _USUAL,
    ("apps", "ReplicaSet"): _USUAL,
    ("", "ReplicationController"): _USUAL,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): _USUAL,
}
"""The path of the template by group and kind; all have the version v1."""
