"""A real API server accepts every manifest without changes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import ACCESS_ENDS, CONTROLLER, NAMESPACE, OPA
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

AWKWARD = 'oidc:/it\'s "us" \\ {{ é }}: #1 \U0001f692'
HIDDEN = AWKWARD + " \x85\u2028"
POOLS = {
    "gpu": {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "two": {"nodeSelector": {"a": "b", "c": "d"}},
}


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"pools": POOLS},
        {"defaultPool": "gpu"},
        {"namespaceLabel": "acme.io/pool", "failurePolicy": "Ignore"},
        {"admins": [AWKWARD], "poolAdmins": [HIDDEN], "contact": AWKWARD},
        {"poolAdmins": []},
    ],
    ids=["defaults", "pools", "default pool", "label", "awkward names", "nobody places"],
)
@pytest.mark.parametrize("url", [None, "https://127.0.0.1:1/"], ids=["by service", "by URL"])
def test_the_api_server_takes_each_manifest_strictly(
    objects: clients.Objects, chosen: dict[str, Any], url: str | None
) -> None:
    settings = Settings.model_validate(chosen)
    rendered = manifests.render_objects(
        PolicySet.load(settings), Credentials.fresh(), webhook_url=url
    )
    for manifest in rendered:
        applied = objects.apply(manifest, dry_run=True)
        assert applied["kind"] == manifest["kind"]
    assert len(rendered) == 48


def test_a_field_that_the_api_does_not_know_is_an_error(objects: clients.Objects) -> None:
    wrong = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default"},
        "dta": {},
    }
    with pytest.raises(Refused, match="dta"):
        objects.apply(wrong, dry_run=True)


def test_pods_of_the_controller_meet_the_restricted_pod_security_standard(
    objects: clients.Objects,
) -> None:
    settings = Settings(access=Access())
    rendered = manifests.render_objects(PolicySet.load(settings), Credentials.fresh())
    templates = {
        m["metadata"]["name"]: m["spec"]["template"] for m in rendered if m["kind"] == "Deployment"
    }
    for name, container in ((CONTROLLER, "controller"), (ACCESS_ENDS, "ends")):
        spec = {**templates[name]["spec"]}
        del spec["serviceAccountName"]  # it is not there
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
        assert objects.apply(pod, dry_run=True)["spec"]["containers"][0]["name"] == container


def test_pods_of_opa_meet_the_restricted_pod_security_standard(objects: clients.Objects) -> None:
    settings = Settings()
    rendered = manifests.render_objects(PolicySet.load(settings), Credentials.fresh())
    (template,) = [
        m["spec"]["template"]
        for m in rendered
        if (m["kind"], m["metadata"]["name"]) == ("Deployment", OPA)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "opa", "namespace": "fairlead"},
        "spec": template["spec"],
    }
    assert (
        objects.apply(pod, dry_run=True)["spec"]["priorityClassName"] == "system-cluster-critical"
    )
    privileged = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    with pytest.raises(Refused, match="restricted"):
        objects.apply(privileged, dry_run=True)
