"""What the cluster must serve, and what a ConfigMap records, for policies without OPA."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import engine_names
from fairlead.deployment.names import ENGINE_ANNOTATION, OBJECTS
from fairlead.kube import clients
from fairlead.kube.discovery import Kind
from fairlead.operations.strategies import admission_objects, cel
from fairlead.operations.strategies.base import Revision
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

ADMISSION = "admissionregistration.k8s.io"


@pytest.fixture(scope="module")
def made() -> Revision:
    return cel.rendered(PolicySet.load(Settings()))


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ((), "does not serve MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, which "),
        ((("v1beta1", "MutatingAdmissionPolicy"),), "Kubernetes has since 1.36: use a newer"),
        ((("v1", "MutatingAdmissionPolicy"),), "ValidatingAdmissionPolicy of .* since 1.30"),
    ],
)
def test_a_cluster_without_these_kinds_is_refused(
    made: Revision,
    served: tuple[tuple[str, str], ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [Kind(f"{ADMISSION}/{version}", kind, "", False, ()) for version, kind in served]
    monkeypatch.setattr(clients, "Objects", lambda _: SimpleNamespace(kinds=lambda: kinds))
    cluster = SimpleNamespace(kubeconfig=Path())
    operation: Any = SimpleNamespace(cluster=cluster, objects=None)
    with pytest.raises(UsageError, match=words):
        cel.Cel(operation).require_served(made)


def test_a_record_is_read_as_it_was_made(made: Revision) -> None:
    again = cel.read(made.manifest)
    assert (again.manifest, again.objects) == (made.manifest, made.objects)
    assert again.revision == made.revision
    assert engine_names.of(made.manifest) == "cel"
    kinds = [each["kind"] for each in admission_objects.bindings(made.objects)]
    assert set(kinds) == {"MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"}
    assert {each["spec"]["policyName"] for each in admission_objects.bindings(made.objects)} <= {
        each["metadata"]["name"] for each in admission_objects.prepared(made.objects)
    }


def test_settings_make_another_revision(made: Revision) -> None:
    other = cel.rendered(PolicySet.load(Settings(failure_policy="Ignore")))
    assert other.revision != made.revision


@pytest.mark.parametrize("data", [{}, {OBJECTS: "a: [b"}, None])
def test_a_damaged_record_is_told(made: Revision, data: Any) -> None:
    with pytest.raises(FairleadError, match="cannot be read: run `fairlead deploy`"):
        cel.read({**made.manifest, "data": data})


def test_without_a_record_it_is_opa() -> None:
    assert engine_names.of(None) == "opa"
    assert engine_names.of({"metadata": {}}) == "opa"
    assert engine_names.of({"metadata": {"annotations": {ENGINE_ANNOTATION: ""}}}) == "opa"
