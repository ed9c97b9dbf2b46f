"""Checks a user's policies together with the project's, for `fairlead test --policies`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairlead.checks import steps
from fairlead.checks.steps import Result
from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import cases, generated, policy_files, workspace
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
    policies = PolicySet.examples(settings, folder)
    folders = [path for path in policies.folders if path != policy_files.builtin().resolve()]
    yield from steps.run(
        {
            "check and test": lambda: _tested(policies, progress),
            "format": lambda: _formatted(folders, progress),
            "cases": lambda: _decided(policies, folders, progress),
            "pages": lambda: _documented(policies, folders),
        },
        progress,
    )


def _tested(policies: PolicySet, progress: Progress) -> str:
    result = workspace.require_good(policies, progress)
    return f"{result.passed} test{'' if result.passed == 1 else 's'} passed"


def _formatted(folders: Sequence[Path], progress: Progress) -> str:
    changed = [path for folder in folders for path in cli.fmt(folder, progress)]
    if changed:
        raise FairleadError(
            f"not formatted: {', '.join(changed)}: run `opa fmt -w {' '.join(map(str, folders))}` "
            "(`fairlead tools --path opa` prints where opa is)"
        )
    return ""


def _decided(policies: PolicySet, folders: Sequence[Path], progress: Progress) -> str:
    """Decide on the cases of the policies in these folders."""
    names = {
        intent.name
        for folder in policies.files.folders
        if folder.path in folders
        for intent in folder.intents
    }
    own_cases = [case for case in cases.load(policies=policies) if case.intent in names]
    results = verify.verify(own_cases, [OpaEngine(policies)], progress)
    failed = [f"{result.case}: {result.detail}" for result in results if not result.passed]
    if failed:
        raise FairleadError("\n".join(failed))
    return f"{len(results)} cases"


def _documented(policies: PolicySet, folders: Sequence[Path]) -> str:
    """Compare the pages of the policies with what is made from them."""
    outdated = [
        (folder, page)
        for folder in folders
        for page in generated.outdated(generated.texts(policies, [folder]))
    ]
    if outdated:
        pages = ", ".join(paths.shown(page) for _, page in outdated)
        commands = "; ".join(
            f"fairlead generate --policies {paths.shown(folder)}"
            for folder in dict.fromkeys(folder for folder, _ in outdated)
        )
        raise FairleadError(f"not as facts and cases say: {pages}: run `{commands}`")
    return ""
