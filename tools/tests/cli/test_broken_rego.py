"""A mistake in a policy of a user's own ends every command with exit code 2, and the file and the
line of the mistake."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import command_line
import pytest

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.distribution import contents
from fairlead.opa.module_names import ModuleName
from fairlead.operations import push
from fairlead.policy import new_policy, policy_files, staging, usage, workspace
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

QUIET = Progress()
REGO = "policies/own_rule/own_rule.rego"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: []}\n"

Change = Callable[[str], str]
BROKEN: dict[str, tuple[Change, str]] = {
    "unfinished": (lambda text: f"{text}\ndeny contains message if {{\n", "rego_parse_error"),
    "no Rego": (lambda text: f"{text}\nthis is no rule at all\n", "rego_"),
    "an unknown variable": (lambda text: f"{text}\nother if unknown == 1\n", "rego_unsafe_var"),
    "an unknown function": (lambda text: f"{text}\nother := nothing(1)\n", "rego_type_error"),
    "half": (lambda text: text[: text.index(":=") + 2], "rego_parse_error"),
    "a recursion": (lambda text: f"{text}\none if two\n\ntwo if one\n", "rego_recursion_error"),
}
NO_PACKAGE = (lambda text: text[text.index("\n\n", text.index("package")) :], "package")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, one policy of its own and a manifest; the working directory."""
    folder = tmp_path / "own"
    (folder / "policies").mkdir(parents=True)
    new_policy.policy("own-rule", folder / "policies")
    (folder / "fairlead.yaml").write_text("policies: [./policies]\n")
    (folder / "pod.yaml").write_text(POD)
    (folder / "data.yaml").write_text("placement: {clusters: {}}\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, repository: Path) -> str:
    """One of the mistakes is in the policy; the beginning of OPA's word for it."""
    change, code = BROKEN[request.param]
    (repository / REGO).write_text(change((repository / REGO).read_text()))
    return code


def own() -> PolicySet:
    return PolicySet.load(Settings(policies=[str(Path("policies").resolve())]))


COMMANDS: dict[str, Callable[[], object]] = {
    "render": lambda: staging.stage(own().bundle, QUIET),
    "bundle": lambda: contents.policies(own(), QUIET),
    "push, deploy, test": lambda: workspace.require_good(own(), QUIET),
    "push, of what is used": lambda: usage.unused_packages(
        {("fairlead-policies", key): text for key, text in own().modules.items()}, {}
    ),
    "status": lambda: usage.unused(own().modules),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_library_names_file_and_line(broken: str, command: str) -> None:
    with pytest.raises(UsageError, match=rf"{REGO}:\d+: {broken}") as error:
        COMMANDS[command]()
    assert error.value.exit_code == 2
    lines = len(Path(REGO).read_text().splitlines())
    row = int(str(error.value).partition(f"{REGO}:")[2].partition(":")[0])
    assert row <= lines, "the module is longer than the file: it carries what intent.yaml says"


def fairlead(*arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.fairlead(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "pod.yaml"),
        ("eval", ".", "--fail-on", "refused"),
        ("render",),
        ("bundle", "build", "--output-file", "bundle.tar.gz"),
        ("verify", "--cases", "policies/own_rule/cases", "--engine", "opa"),
        ("test", "--policies", "policies"),
        ("generate",),
        ("render", "--engine", "cel"),
        ("render", "--engine", "gatekeeper"),
        ("place", "pod.yaml", "--data", "data.yaml", "--policies", "policies"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("mistake", ["unfinished", "no package"])
def test_the_commands_end_with_2(
    repository: Path, arguments: tuple[str, ...], mistake: str
) -> None:
    change, code = {**BROKEN, "no package": NO_PACKAGE}[mistake]
    (repository / REGO).write_text(change((repository / REGO).read_text()))
    done = fairlead(*arguments)
    assert done.returncode == 2, done
    said = done.stderr + done.stdout
    assert REGO in "".join(said.split()), said
    assert code in said
    assert "opa refactor" not in said


def test_a_push_says_that_nothing_was_pushed(repository: Path) -> None:
    with pytest.raises(FairleadError) as error, push.nothing_pushed():
        raise UsageError(f"{REGO}:3: rego_parse_error: x")
    assert (str(error.value), error.value.exit_code) == (
        f"{REGO}:3: rego_parse_error: x\nnothing was pushed",
        2,
    )


def test_modules_of_a_cluster_are_named_by_their_keys(repository: Path) -> None:
    """Nobody has their file, and it is no wrong usage."""
    modules = {**own().modules, "a.a.rego": "package a\n\nb if unknown == 1\n"}
    with pytest.raises(FairleadError, match=r"a\.a\.rego:3: rego_unsafe_var_error") as error:
        staging.stage(Bundle(modules), QUIET)
    assert error.value.exit_code == 1


def test_a_name_stays_in_merged_mappings(repository: Path) -> None:
    merged = {**own().modules, "more.rego": ""}
    assert merged["own_rule.own_rule.rego"]
    (name,) = [name for name in merged if name == "own_rule.own_rule.rego"]
    assert isinstance(name, ModuleName)
    assert name.path == (policy_files.paths(own().settings)[1] / "own_rule" / "own_rule.rego")
