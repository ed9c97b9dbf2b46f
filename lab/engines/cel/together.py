"""The policies of several settings beside each other, each for the requests of its own users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.engines.cel.manifests import Rendered
from lab.engines.live.worlds import World, numbered


def parameters(world: World[Rendered]) -> list[dict[str, Any]]:
    """The parameters of all instances, each object once."""
    entries = [
        entry.rendered.parameters for entry in world if entry.rendered.parameters is not None
    ]
    return list({(entry["kind"], entry["metadata"]["name"]): entry for entry in entries}.values())


def policies(world: World[Rendered]) -> Iterator[list[dict[str, Any]]]:
    """The policies that concern requests, each before its binding: a list for each instance."""
    for number, instance in enumerate(world):
        pairs = zip(instance.rendered.policies, instance.rendered.bindings, strict=True)
        objects = []
        for policy, binding in pairs:
            if instance.concerns(policy):
                numbered_policy, numbered_binding = (
                    instance.named(policy, number),
                    numbered(binding, number),
                )
                numbered_binding["spec"]["policyName"] = numbered_policy["metadata"]["name"]
                objects += [numbered_policy, numbered_binding]
        yield objects
