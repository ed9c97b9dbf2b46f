"""Checks a user's policies together with the project's, for `fairlead test --policies`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairlead.checks import checkout
from fairlead.checks.checkout import Result
from fairlead.checks.conformance import cases, verify
from fairlead.checks.conformance.engines.opa import OpaEngine
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import bundles, workspace
from fairlead.settings import intents
from fairlead.settings.models import Settings


def run(settings: Settings, folder: Path, *, progress: Progress) -> Iterator[Result]:
    """Check the policies of `folder`, besides those of the settings: the schemas, the contract and
    the tests, the format, and the cases on OPA. Yields each step's result.

    Raises InputError if a file cannot be read.
    """
    places = [str(place) for place in bundles.folders(settings, folder)[1:]]
    settings = settings.model_copy(update={"policies": places})
    yield from checkout.results(
        {
            "check and test": lambda: _tested(settings, progress),
            "format": lambda: _formatted(places, progress),
            "cases": lambda: _decided(settings, places, progress),
        },
        progress,
    )


def _tested(settings: Settings, progress: Progress) -> str:
    result = workspace.require_good(settings, progress=progress)
    return f"{result.passed} test{'' if result.passed == 1 else 's'} passed"


def _formatted(places: list[str], progress: Progress) -> str:
    changed = [path for place in places for path in cli.fmt(Path(place), progress)]
    if changed:
        raise FairleadError(
            f"not formatted: {', '.join(changed)}: run `opa fmt -w {' '.join(places)}` "
            "(`fairlead tools --path opa` prints where opa is)"
        )
    return ""


def _decided(settings: Settings, places: list[str], progress: Progress) -> str:
    """Decide on the cases of the policies in these folders."""
    theirs = {intent.name for place in places for intent in intents.in_folder(Path(place))}
    chosen = [case for case in cases.load(settings=settings) if case.intent in theirs]
    results = verify.verify(chosen, [OpaEngine()], progress)
    failed = [f"{result.case}: {result.detail}" for result in results if not result.passed]
    if failed:
        raise FairleadError("\n".join(failed))
    return f"{len(results)} cases"
