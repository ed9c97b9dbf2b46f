"""Renders instances of intents as objects of Gatekeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.common.mistakes import Mistake
from fairlead.engines.gatekeeper import constraints, modules, mutators, refusals
from fairlead.engines.gatekeeper import definition as definitions
from fairlead.policy import bundles
from fairlead.policy.bundles import Bundle
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


def render(active: Sequence[Instance], settings: Settings, bundle: Bundle) -> list[dict[str, Any]]:
    """The objects in the order in which to apply them: the templates of the intents, which their
    instances share, the mutators, and the constraints. Raises InputError, and FairleadError with
    OPA's message.
    """
    document = bundles.settings_document(settings, active)
    templates: dict[str, dict[str, Any]] = {}
    mutating: list[dict[str, Any]] = []
    constraining: list[dict[str, Any]] = []
    for instance in active:
        definition = definitions.of(instance.intent)
        code = modules.of(instance.intent, bundle)
        templates[instance.intent.name] = constraints.template(instance.intent, code)
        mutating += mutators.render(instance, definition, settings) if definition else ()
        constraining += constraints.constraints(instance, settings, document, code)
    return [*templates.values(), *mutating, *constraining]


def refused(active: Sequence[Instance], settings: Settings, bundle: Bundle) -> Iterator[Mistake]:
    """What of the settings Gatekeeper cannot express, with its place in fairlead.yaml."""
    yield from refusals.of_settings(settings)
    for instance in active:
        definition = definitions.of(instance.intent)
        code = modules.of(instance.intent, bundle)
        yield from refusals.of_instance(instance, definition, code, settings)
