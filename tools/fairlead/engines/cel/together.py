"""The policies of several settings beside each other, each for the requests of its own users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.engines.cel.manifests import Rendered
from fairlead.engines.live.worlds import World, numbered


def parameters(world: World[Rendered]) -> list[dict[str, Any]]:
    """The parameters of all instances, each object once."""
    every = [each.rendered.parameters for each in world if each.rendered.parameters is not None]
    return list({(each["kind"], each["metadata"]["name"]): each for each in every}.values())


def policies(world: World[Rendered]) -> Iterator[list[dict[str, Any]]]:
    """The policies that concern requests, each before its binding: a list for each instance."""
    for number, instance in enumerate(world):
        pairs = zip(instance.rendered.policies, instance.rendered.bindings, strict=True)
        objects = []
        for policy, binding in pairs:
            if instance.concerns(policy):
                named, bound = instance.named(policy, number), numbered(binding, number)
                bound["spec"]["policyName"] = named["metadata"]["name"]
                objects += [named, bound]
        yield objects
