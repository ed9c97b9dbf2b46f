"""Checks and tests policies from several folders as one: the project's, and those of users.

OPA gets them in one temporary folder, with the settings and the table of the intents that belong to
them. Its messages name the original files.
"""

from __future__ import annotations

import contextvars
import json
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fairlead.common import paths, yaml_files
from fairlead.common.errors import FairleadError, InputError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.opa.cli import Tested
from fairlead.opa.module_names import ModuleName
from fairlead.policy import contract, kinds, libraries, policy_files, remembered, tables
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_SILENT = Progress()
_sound: deque[str] = deque(maxlen=16)
"""The revisions that this process has found to be sound: a controller checks a change before it is
stored, and when it brings it into force."""


@dataclass(frozen=True)
class Workspace:
    """A temporary folder with `policies` and `schemas`. `sources` has the name of each module, by
    its file in the folder.
    """

    policies: Path
    schemas: Path
    sources: Mapping[Path, ModuleName]

    def named(self, text: str) -> str:
        """A message with the names of the original files."""
        for copy, source in self.sources.items():
            text = re.sub(
                rf"{re.escape(str(copy))}(?::(\d+))?",
                lambda match, source=source: source.place(match[1]),  # type: ignore[misc]
                text,
            )
        return text

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Has errors of the block name the original files."""
        try:
            yield
        except FairleadError as error:
            error.args = (self.named(str(error)),)
            raise


@contextmanager
def of(examples: PolicySet) -> Iterator[Workspace]:
    """The policies and tests of a set with examples of parameters (PolicySet.with_examples).

    The tests are those of users' folders, if there are some; then all intents are in force. If
    there are none, the tests are the project's, and the intents in force are those that are so by
    default. Raises InputError.
    """
    first, *further = examples.folders
    in_force = examples
    if not further:
        in_force = examples.under(Settings())
        examples = in_force.with_examples()
    with tempfile.TemporaryDirectory(prefix="fairlead-") as name:
        folder = Path(name)
        policies, schemas = folder / "policies", folder / "schemas"
        shutil.copytree(paths.root() / "tools" / "schemas", schemas)
        sources = {}
        paths_by_key = examples.files.in_force(examples.settings)
        texts = {key: examples.files.text(path) for key, path in paths_by_key.items()}
        unused = libraries.unused(texts)  # what these use may not be there
        for key, path in paths_by_key.items():
            test = path.name.endswith("_test.rego")
            if key in unused or (test and further and path.is_relative_to(first)):
                continue
            copy = policies / key
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(in_force.modules.get(key) or texts[key])
            sources[copy] = examples.files.name(key, path)
        (policies / tables.INTENTS).write_text(in_force.modules[tables.INTENTS])
        for name in policy_files.FILE_MODULES:
            shutil.copyfile(policy_files.builtin() / name, policies / name)
        for policy_folder in further:
            _add_schemas(policy_folder, schemas)
        yield Workspace(policies, schemas, sources)


def require_good(
    policies: PolicySet, progress: Progress = _SILENT, *, remembering: bool = False
) -> Tested:
    """Check the policies in strict mode, with the schemas of the kinds; that each intent keeps the
    contract; and that all tests pass. Raises FairleadError with everything that is wrong.

    With `remembering`, policies that passed before with the same OPA are not tested again.
    """
    progress.update("policies", "checking and testing")
    examples = policies.with_examples()
    with of(examples) as workspace, workspace.naming():
        contract.require(examples, progress)  # before others say it in OPA's words
        key = remembered.key(workspace.policies.parent, progress)
        if remembering and (before := remembered.passed(key)):
            return before
        cli.check(workspace.policies, workspace.schemas, progress)
        result = cli.test(workspace.policies, progress)
        if result.failed:
            raise FairleadError(f"policy tests fail: {', '.join(result.failed)}")
    remembered.remember(key, result)
    return result


def require_sound(policies: PolicySet, progress: Progress = _SILENT) -> None:
    """Check the policies of users as `require_good` does, but run no tests: they were tested where
    they come from. Raises FairleadError with everything that is wrong.
    """
    progress.update("policies", "checking")
    examples = policies.with_examples()
    if examples.revision in _sound:
        return
    with of(examples) as workspace, workspace.naming(), ThreadPoolExecutor(1) as beside:
        # Both are mostly the time of `opa`. What the contract says comes first.
        check = partial(cli.check, workspace.policies, workspace.schemas, progress)
        checked = beside.submit(contextvars.copy_context().run, check)
        contract.require_of_users(examples, progress)
        checked.result()
    _sound.append(examples.revision)


def crds(folder: Path) -> list[yaml_files.Document]:
    """The CustomResourceDefinitions in the folders `<intent>/crds`. Raises InputError."""
    documents = []
    for path in sorted(folder.glob("*/crds/*.y*ml")):
        for document in yaml_files.read_yaml(path):
            try:
                kinds.of_crd(document.value)
            except (KeyError, TypeError, AttributeError) as error:
                line = document.line(())
                message = "is not a CustomResourceDefinition (apiextensions.k8s.io/v1)"
                raise InputError(path, message, line=line) from error
            documents.append(document)
    return documents


def _add_schemas(folder: Path, schemas: Path) -> None:
    """The schemas of the custom resources that the policies of a folder bring along. Raises
    InputError.
    """
    for document in crds(folder):
        for name, schema in kinds.of_crd(document.value).items():
            target = schemas / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(schema))
