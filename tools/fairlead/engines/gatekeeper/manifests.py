"""Renders instances of intents as objects of Gatekeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.mistakes import Mistake
from fairlead.engines.gatekeeper import constraints, modules, mutators, refusals
from fairlead.engines.gatekeeper import definition as definitions
from fairlead.policy import bundles
from fairlead.policy.bundles import Bundle
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


@dataclass(frozen=True)
class Rendered:
    """The objects of one instance: the template of its intent, which all instances of it share, its
    constraints, and its mutators.
    """

    template: dict[str, Any]
    constraints: list[dict[str, Any]]
    mutators: list[dict[str, Any]]


def render(active: Sequence[Instance], settings: Settings, bundle: Bundle) -> list[Rendered]:
    """The instances, in their order. Raises InputError, and FairleadError with OPA's message."""
    document = bundles.settings_document(settings, active)
    rendered = []
    for instance in active:
        definition = definitions.of(instance.intent)
        code = modules.of(instance.intent, bundle)
        rendered.append(
            Rendered(
                constraints.template(instance.intent, code),
                list(constraints.constraints(instance, settings, document, code)),
                list(mutators.render(instance, definition, settings)) if definition else [],
            )
        )
    return rendered


def refused(active: Sequence[Instance], settings: Settings, bundle: Bundle) -> Iterator[Mistake]:
    """What of the settings Gatekeeper cannot express, with its place in fairlead.yaml."""
    yield from refusals.of_settings(settings)
    for instance in active:
        definition = definitions.of(instance.intent)
        code = modules.of(instance.intent, bundle)
        yield from refusals.of_instance(instance, definition, code, settings)


def in_order(rendered: Sequence[Rendered]) -> list[dict[str, Any]]:
    """All objects, in the order in which to apply them."""
    templates = {instance.template["metadata"]["name"]: instance.template for instance in rendered}
    return [
        *templates.values(),
        *(mutator for instance in rendered for mutator in instance.mutators),
        *(constraint for instance in rendered for constraint in instance.constraints),
    ]
