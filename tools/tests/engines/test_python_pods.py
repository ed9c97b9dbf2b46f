"""Where the policies in Python find pods and their containers."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.engines.python import pods


def test_containers_of_all_lists_have_titles() -> None:
    spec = {"initContainers": [{"name": "migrate"}], "containers": [{"name": "app"}], "volumes": []}
    spec["ephemeralContainers"] = [{"name": "debug"}]
    titles = [pods.title(name, container) for name, _, container in pods.containers(spec)]
    assert titles == ['init container "migrate"', 'container "app"', 'ephemeral container "debug"']


@pytest.mark.parametrize("spec", [{}, {"containers": None}, {"containers": [{"name": "app"}]}])
def test_a_pod_spec_can_be_judged(spec: dict[str, Any]) -> None:
    assert list(pods.problems({"spec": spec}, ())) == []


@pytest.mark.parametrize(
    "workload", [None, {}, {"spec": None}, {"spec": {"template": {"spec": []}}}]
)
def test_without_a_pod_spec_nobody_can_judge(workload: Any) -> None:
    assert list(pods.problems(workload, ("spec", "template"))) == [
        "spec.template.spec is not an object: cannot tell what its pods would do"
    ]


@pytest.mark.parametrize("listed", [{}, "app", ["app"], [{}], [{"name": 1}], [{"name": "a"}, None]])
def test_without_a_list_of_containers_nobody_can_judge(listed: Any) -> None:
    assert list(pods.problems({"spec": {"initContainers": listed}}, ())) == [
        "spec.initContainers is not a list of containers with names: cannot tell what its pods "
        "would do"
    ]
