"""Checks a user's policies together with the project's, for `fairlead test --policies`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairlead.checks import steps
from fairlead.checks.steps import Result
from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import bundles, cases, generated, intents, workspace
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification import verify
from fairlead.verification.opa import OpaEngine


def run(settings: Settings, folder: Path, *, progress: Progress) -> Iterator[Result]:
    """Check the policies of `folder`, besides those of the settings: the schemas, the contract and
    the tests, the format, the cases on OPA, and whether the pages are up to date. If it has a
    main.rego, it takes the place of the project's folder. Yields each step's result.

    Raises InputError if a file cannot be read.
    """
    settings, source = bundles.placed(settings, folder)
    places = [*([] if source is None else [str(source)]), *settings.policies]
    yield from steps.run(
        {
            "check and test": lambda: _tested(settings, source, progress),
            "format": lambda: _formatted(places, progress),
            "cases": lambda: _decided(settings, source, places, progress),
            "pages": lambda: _documented(settings, places),
        },
        progress,
    )


def _tested(settings: Settings, source: Path | None, progress: Progress) -> str:
    result = workspace.require_good(PolicySet.load(settings, source), progress)
    return f"{result.passed} test{'' if result.passed == 1 else 's'} passed"


def _formatted(places: list[str], progress: Progress) -> str:
    changed = [path for folder in places for path in cli.fmt(Path(folder), progress)]
    if changed:
        raise FairleadError(
            f"not formatted: {', '.join(changed)}: run `opa fmt -w {' '.join(places)}` "
            "(`fairlead tools --path opa` prints where opa is)"
        )
    return ""


def _decided(settings: Settings, source: Path | None, places: list[str], progress: Progress) -> str:
    """Decide on the cases of the policies in these folders."""
    theirs = {intent.name for folder in places for intent in intents.in_folder(Path(folder))}
    all_cases = cases.load(settings=settings, folder=source)
    own_cases = [case for case in all_cases if case.intent in theirs]
    results = verify.verify(own_cases, [OpaEngine(source)], progress)
    failed = [f"{result.case}: {result.detail}" for result in results if not result.passed]
    if failed:
        raise FairleadError("\n".join(failed))
    return f"{len(results)} cases"


def _documented(settings: Settings, places: list[str]) -> str:
    """Compare the pages of the policies with what is made from them."""
    outdated = [
        (folder, page)
        for folder in places
        for page in generated.outdated(generated.texts([Path(folder)], settings))
    ]
    if outdated:
        pages = ", ".join(paths.shown(page) for _, page in outdated)
        commands = "; ".join(
            f"fairlead generate --policies {paths.shown(Path(folder))}"
            for folder in dict.fromkeys(folder for folder, _ in outdated)
        )
        raise FairleadError(f"not as facts and cases say: {pages}: run `{commands}`")
    return ""
