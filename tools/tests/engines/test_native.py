"""What the cluster must serve, and what a ConfigMap records, for policies without OPA."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.names import ENGINE_ANNOTATION, OBJECTS
from fairlead.engines.native import bring, record
from fairlead.kube import clients, discovery
from fairlead.kube.discovery import Kind
from fairlead.settings.models import Settings

ADMISSION = "admissionregistration.k8s.io"


@pytest.fixture(scope="module")
def made() -> record.Record:
    return record.made("cel", Settings(), None)


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ((), "does not serve MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, which "),
        ((("v1beta1", "MutatingAdmissionPolicy"),), "Kubernetes has since 1.36: use a newer"),
        ((("v1", "MutatingAdmissionPolicy"),), "ValidatingAdmissionPolicy of .* since 1.30"),
    ],
)
def test_a_cluster_without_these_kinds_is_refused(
    made: record.Record,
    served: tuple[tuple[str, str], ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [Kind(f"{ADMISSION}/{version}", kind, "", False, ()) for version, kind in served]
    monkeypatch.setattr(discovery, "kinds", lambda _: kinds)
    monkeypatch.setattr(clients, "connect", lambda _: None)
    cluster: Any = SimpleNamespace(kubeconfig=Path())
    with pytest.raises(UsageError, match=words):
        bring.require_served(cluster, made)


def test_a_record_is_read_as_it_was_made(made: record.Record) -> None:
    again = record.read(dict(made.manifest))
    assert (again.manifest, again.objects) == (made.manifest, made.objects)
    assert again.revision == made.revision
    assert record.engine_of(made.manifest) == "cel"
    kinds = [each["kind"] for each in made.bindings]
    assert set(kinds) == {"MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding"}
    assert {each["spec"]["policyName"] for each in made.bindings} <= {
        each["metadata"]["name"] for each in made.prepared
    }


def test_settings_make_another_revision(made: record.Record) -> None:
    assert record.made("cel", Settings(failure_policy="Ignore"), None).revision != made.revision


@pytest.mark.parametrize("data", [{}, {OBJECTS: "a: [b"}, None])
def test_a_damaged_record_is_told(made: record.Record, data: Any) -> None:
    with pytest.raises(FairleadError, match="cannot be read: run `fairlead deploy`"):
        record.read({**made.manifest, "data": data})


def test_without_a_record_it_is_opa() -> None:
    assert record.engine_of(None) == "opa"
    assert record.engine_of({"metadata": {}}) == "opa"
    assert record.engine_of({"metadata": {"annotations": {ENGINE_ANNOTATION: ""}}}) == "opa"
