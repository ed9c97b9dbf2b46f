"""The manifests of the engine `python`: a server in place of OPA, which may only read."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, render, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import CONTROLLER, ENGINE_ANNOTATION, OPA, POLICIES
from fairlead.policy import python_code
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    """All objects, by kind and name."""
    policies = PolicySet.load(Settings())
    bundle = Bundle({**policies.modules, **python_code.read(policies.active)})
    rendered = manifests.render_objects(
        policies.with_bundle(bundle), Credentials.fresh(), sidecar=sidecars.SERVE
    )
    return {(each["kind"], each["metadata"]["name"]): each for each in rendered}


def test_one_container_serves_where_the_webhooks_and_the_service_ask(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    pod = objects["Deployment", OPA]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:3] == ["serve", "--deployed", "--listen=0.0.0.0:8443"]
    (port,) = container["ports"]
    assert port == {"name": "https", "containerPort": 8443}
    assert objects["Service", OPA]["spec"]["ports"][0]["targetPort"] == "https"
    assert {volume["name"] for volume in pod["volumes"]} == {"tls", "reports", "service-account"}
    mounted = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
    for webhook in objects["MutatingWebhookConfiguration", "fairlead"]["webhooks"]:
        assert webhook["clientConfig"]["service"]["path"].startswith("/intents/")


def test_it_may_only_read_and_the_controller_replaces_no_pods(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for kind, name in (("Role", OPA), ("ClusterRole", "fairlead-opa")):
        for rule in objects[kind, name]["rules"]:
            assert {*rule["verbs"]} <= {"get", "list", "watch"}
    rules = objects["Role", CONTROLLER]["rules"]
    assert [rule["verbs"] for rule in rules if rule["resources"] == ["deployments"]] == [["get"]]
    (container,) = objects["Deployment", CONTROLLER]["spec"]["template"]["spec"]["containers"]
    assert "--roll-out" not in container["args"]


def test_the_policies_have_their_code_and_their_engine(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    config_map = objects["ConfigMap", POLICIES]
    assert config_map["metadata"]["annotations"][ENGINE_ANNOTATION] == "python"
    assert "def decide(" in config_map["data"]["node_pool.engines.python.py"]


def test_rendering_again_gives_the_same(tmp_path: Any) -> None:
    def rendered() -> str:
        result = render.render(
            PolicySet.load(Settings()),
            sidecar=sidecars.SERVE.name,
            secrets=tmp_path / "secrets.yaml",
            progress=Progress(),
        )
        result.save()
        return manifests.to_yaml(result.printed)

    assert rendered() == rendered()


@pytest.mark.parametrize(
    "settings",
    [
        {"maxStaleness": 60},
        {"replicate": [{"resource": "services", "version": "v1"}]},
        {"decisionLogs": {"service": {"url": "https://logs.example.com"}}},
        {"decisionLogs": {"sample": 0.5}},
    ],
)
def test_settings_of_opa_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is about OPA, and has no effect with the engine python"):
        sidecars.SERVE.require(Settings.model_validate(settings))
