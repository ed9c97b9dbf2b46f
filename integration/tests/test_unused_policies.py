"""Policies that OPA holds and no decision uses are named by `fairlead status` and by a push."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner
from policy_copies import copied
from waits import until

from fairlead.cli.operations.status import command
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES, POLICY_LABEL
from fairlead.kube import clients
from fairlead.operations import policy_status, push
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

LOADED = "loaded; no decision uses it"


def _labelled(name: str, package: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict([POLICY_LABEL])},
        "data": {"rules.rego": f"package {package}\n\ndeny := set()\n"},
    }


def test_policies_that_no_decision_uses_are_named(
    cluster: Cluster, objects: clients.Objects, settings: Settings, tmp_path: Path
) -> None:
    folder = copied(tmp_path / "policies")
    main = folder / "main.rego"
    uses = " if {\n\t_decisions\n\tcount([name | data.teams[name].deny]) >= 0\n}\n"
    assert main.read_text().count(" if _decisions\n") == 1
    main.write_text(main.read_text().replace(" if _decisions\n", uses))
    (folder / "idle.rego").write_text("package idle\n\nx := 1\n")
    config_maps = [_labelled("used-by-main", "teams.blue"), _labelled("not-used", "lonely")]
    try:
        for config_map in config_maps:
            objects.apply(config_map)

        def used() -> dict[str, bool] | None:
            rows = policy_status.policies(objects)
            states = {row["name"]: row["used"] for row in rows if row["status"] == "ok"}
            return states if len(states) == 3 else None

        states = until(used, what="OPA accepts the policies")
        assert states == {POLICIES: True, "used-by-main": False, "not-used": False}
        text = CliRunner().invoke(command, ["--name", cluster.name], catch_exceptions=False).output
        rows = [line for line in text.splitlines() if LOADED in line]
        assert [row.split()[0] for row in rows] == ["not-used", "used-by-main"]
        result = push.push(cluster, PolicySet.load(settings, folder), progress=Progress())
        assert [line for line in result["warnings"] if "no decision uses it" in line] == [
            "package idle is loaded, but no decision uses it: use it in main.rego, or remove it"
        ]
        states = until(used, what="OPA accepts the policies")
        assert states == {POLICIES: True, "used-by-main": True, "not-used": False}
    finally:
        for config_map in config_maps:
            objects.delete("v1", "ConfigMap", config_map["metadata"]["name"], NAMESPACE)
        push.push(cluster, PolicySet.load(settings), progress=Progress())
