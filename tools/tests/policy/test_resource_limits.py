"""Resource limits in Rego and in Python agree, and read quantities as Kubernetes does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.common import paths, yaml_files
from fairlead.engines.python import loading
from fairlead.engines.python.api import Kind, Request
from fairlead.opa import cli
from fairlead.policy import intents
from fairlead.policy.instances import Instance
from fairlead.settings.models import Exempt, Settings

POLICIES = paths.root() / "policies"
MODULES = {
    name.replace("/", "."): yaml_files.read_text(POLICIES / name)
    for name in (
        "lib/mirror_pods/mirror_pods.rego",
        "lib/resources/resources.rego",
        "lib/pod_specs/pod_specs.rego",
        "lib/quantities/quantities.rego",
        "lib/templates/templates.rego",
        "resource_limits/resource_limits.rego",
        "review/review.rego",
        "settings.rego",
    )
}
INTENT = next(each for each in intents.in_folder(POLICIES) if each.name == "resource-limits")
NAMES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
PARAMETERS = INTENT.parameters(
    {
        "requests": {
            "required": ["cpu"],
            "container_max": {"cpu": "2", "example.com/gpu": "0"},
            "pod_max": {"cpu": "3", "memory": "3Gi"},
        },
        "limits": {
            "required": ["memory"],
            "container_max": {"memory": "2Gi"},
            "pod_max": {"memory": "3Gi", "ephemeral-storage": "1e9"},
        },
    }
)


def _opa(query: str, value: Any) -> Any:
    return cli.evaluate(query, modules=MODULES, data={}, input=value)


def test_quantities_have_the_amounts_that_kubernetes_gives_them() -> None:
    amounts = json.loads(yaml_files.read_text(paths.root() / "testdata" / "quantities.json"))
    read = _opa(
        "{text: sprintf(`%d`, [data.lib.quantities.nano(text)]) | some text in input}", [*amounts]
    )
    assert read == {text: amount for text, amount in amounts.items() if amount is not None}


quantities = st.one_of(
    st.sampled_from(
        ["0", "1", "500m", "1.5", "2", "1e3", "1Gi", "1.5Gi", "2Gi", "2G", "1E", "4294967296000m"]
    ),
    st.from_regex(r"\A[+-]?[0-9]{0,3}(\.[0-9]{1,3})?(m|k|M|G|E|Ki|Mi|Gi|e[+-]?[0-9]{1,2})?\Z"),
)
amounts = st.dictionaries(st.sampled_from(NAMES), quantities, max_size=3)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])}, optional={"resources": resources}
)
init_containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d"])},
    optional={"resources": resources, "restartPolicy": st.just("Always")},
)
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(init_containers, max_size=3),
        "resources": resources,
        "overhead": amounts,
    },
)
requests = st.one_of(
    st.fixed_dictionaries({"operation": st.just("CREATE"), "object": specs}),
    st.fixed_dictionaries({"operation": st.just("UPDATE"), "object": specs, "oldObject": specs}),
)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(requests, min_size=1, max_size=20))
def test_rego_and_python_give_the_same_reasons(generated: list[dict[str, Any]]) -> None:
    decide = loading.load(Instance(INTENT.name, INTENT, PARAMETERS, Exempt(), ()))
    reviews = [_review(request) for request in generated]
    denials = _opa(
        "[deny | parameters := input.parameters; some review in input.reviews;"
        " deny := data.resource_limits.deny"
        " with input as review with data.settings.parameters as parameters]",
        {"reviews": reviews, "parameters": {"resource_limits": PARAMETERS}},
    )
    for review, deny in zip(reviews, denials, strict=True):
        assert set(deny) == decide(_request(review["request"]), PARAMETERS, Settings()).deny


def _review(request: Mapping[str, Any]) -> dict[str, Any]:
    objects = {
        key: {"metadata": {"name": "web"}, "spec": request[key]}
        for key in ("object", "oldObject")
        if key in request
    }
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    return {"request": {"operation": request["operation"], "kind": kind, **objects}}


def _request(request: Mapping[str, Any]) -> Request:
    return Request(
        operation=request["operation"],
        kind=Kind(**request["kind"]),
        object=request["object"],
        old_object=request.get("oldObject"),
        name="web",
    )
