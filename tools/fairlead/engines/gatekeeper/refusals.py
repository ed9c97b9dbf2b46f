"""What Gatekeeper cannot express, with the place in fairlead.yaml. `render` refuses such settings,
so that nothing is left out silently."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.common.mistakes import Mistake
from fairlead.engines.gatekeeper import definition as definitions
from fairlead.engines.gatekeeper import installation, mutators
from fairlead.engines.gatekeeper.definition import Definition
from fairlead.engines.gatekeeper.modules import Code
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


def of_settings(settings: Settings) -> Iterator[Mistake]:
    """What concerns all instances."""
    if settings.failure_policy != "Fail":
        yield Mistake(
            ("failurePolicy",),
            "failurePolicy: Gatekeeper has one failurePolicy for all policies, in its own "
            "webhooks: remove the line, and set it in Gatekeeper's Helm values",
        )


def of_instance(
    instance: Instance, definition: Definition | None, code: Code, settings: Settings
) -> Iterator[Mistake]:
    """What concerns one instance."""
    at = ("intents", instance.name)
    key = f"intents.{instance.name}"
    off = f"switch the intent off (`{instance.name}: false`)"
    for name in code.unavailable:
        yield Mistake(at, f"{key}: it uses {name}, which Gatekeeper does not have: {off}")
    mutated = {mutator.request for mutator in definition.mutators} if definition else set()
    if definition is None and any("mutating" in mutator.webhooks for mutator in instance.requests):
        yield Mistake(
            at,
            f"{key}: it changes objects, and {instance.intent.name} has no {definitions.FILE}, "
            f"which says by which mutators: add it, or {off}",
        )
    for request in installation.unasked(instance, mutated):
        problem = f"it decides on {request}, about which Gatekeeper is not asked"
        yield Mistake(at, f"{key}: {problem}: {off}")
    if definition is None:
        return
    names = mutators.names(instance, settings)
    for refusal in definition.refused:
        if definitions.evaluated(instance.intent, refusal.when, names):
            location = tuple(definitions.evaluated(instance.intent, refusal.at, names))
            yield Mistake(location, f"{'.'.join(location)}: {refusal.reason}")
    for field in ("users", "groups"):
        if definition.mutators and getattr(instance.exempt, field):
            yield Mistake(
                (*at, "exempt", field),
                f"{key}.exempt.{field}: a mutator of Gatekeeper does not know who sends a "
                "request: exempt namespaces instead",
            )
