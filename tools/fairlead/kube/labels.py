"""Checks label keys and values by Kubernetes' rules, and knows which labels a kubelet may set.

Source: Kubernetes documentation, Labels and Selectors, "Syntax and character set".
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# Source: k8s.io/kubelet, pkg/apis/well_known_labels.go: what kubelets may set of kubernetes.io and
# k8s.io.
_OF_KUBELETS = {
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")


def check_key(key: str) -> str:
    """`key`, if it is a legal label key. Raises ValueError."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (
        slash and not (_PREFIX.fullmatch(prefix) and len(prefix) <= 253)
    ):
        raise ValueError(
            f"{key!r} is not a label key: [prefix/]name, at most 63 letters, digits, '-', '_' and "
            "'.'"
        )
    return key


def check_value(value: str) -> str:
    """`value`, if it is a legal label value. Raises ValueError."""
    if value and not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a label value: at most 63 letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends"
        )
    return value


def kubelet_may_set(key: str) -> bool:
    """Whether a kubelet may give its own node this label if the API server's plugin NodeRestriction
    is on.
    """
    prefix = key.rpartition("/")[0]
    if not _within(prefix, "kubernetes.io", "k8s.io"):
        return True
    return key in _OF_KUBELETS or _within(prefix, "kubelet.kubernetes.io", "node.kubernetes.io")


def _within(domain: str, *parents: str) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
