"""The Dockerfiles build with BuildKit and with the classic builder, and the images hold only what
is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairlead import __version__
from fairlead.common import paths
from fairlead.programs import toolchain
from fairlead.settings.models import Images

ROOT = paths.root()
SIDECAR = ROOT / "integration" / "image" / "Dockerfile"
DOCKERFILES = (ROOT / ".devcontainer" / "Dockerfile", SIDECAR)


@dataclass(frozen=True)
class Instruction:
    name: str
    words: tuple[str, ...]


def instructions(path: Path) -> list[Instruction]:
    """The instructions of a Dockerfile as words, without comments and with joined lines."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = (line.split() for line in text.splitlines() if line.strip())
    return [Instruction(words[0], tuple(words[1:])) for words in lines]


every = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)


@every
def test_nothing_in_it_needs_buildkit(path: Path) -> None:
    assert not re.search(r"^#\s*(syntax|escape)\s*=", path.read_text(), re.MULTILINE)
    for instruction in instructions(path):
        assert instruction.name in {
            "ARG",
            "FROM",
            "RUN",
            "COPY",
            "USER",
            "WORKDIR",
            "ENV",
            "LABEL",
            "ENTRYPOINT",
            "CMD",
        }
        if instruction.name == "RUN":
            assert not instruction.words[0].startswith(("--", "<<"))
        if instruction.name == "COPY":
            assert all(
                re.match("--(from|chown)=", word)
                for word in instruction.words
                if word.startswith("--")
            )


@every
def test_every_stage_is_built_on_the_one_image_that_a_variable_names(path: Path) -> None:
    first, *rest = instructions(path)
    assert first == Instruction("ARG", ("BASE_IMAGE=debian:bookworm-slim",))
    stages = {"${BASE_IMAGE}", "scratch"}
    if path != SIDECAR:  # and what may bring programs, by default the same image
        assert rest.pop(0) == Instruction("ARG", ("PROGRAMS_IMAGE=${BASE_IMAGE}",))
        stages.add("${PROGRAMS_IMAGE}")
    for each in rest:
        if each.name == "FROM":
            assert each.words[0] in stages
            stages |= set(each.words[2:])
        assert each.name != "ARG"


@every
def test_it_runs_as_a_user_without_rights(path: Path) -> None:
    user = [each.words[0] for each in instructions(path) if each.name == "USER"][-1]
    assert user.split(":")[0] not in ("root", "0")


def test_the_sidecar_runs_as_a_number_which_a_cluster_can_tell_from_root() -> None:
    assert Instruction("USER", ("1000:1000",)) in instructions(SIDECAR)


def test_the_sidecar_is_labelled_and_tagged_with_its_version() -> None:
    assert f'image.version="{__version__}"' in SIDECAR.read_text()
    assert Images().fairlead == f"fairlead:{__version__}"


@every
def test_what_it_copies_is_there_and_is_sent_to_the_builder(path: Path) -> None:
    ignored = {
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if not line.startswith("#")
    }
    for each in instructions(path):
        if each.name == "COPY" and not any(word.startswith("--from=") for word in each.words):
            for source in [word for word in each.words if not word.startswith("--")][:-1]:
                assert (ROOT / source).exists(), source
                assert source.split("/")[0] not in ignored, source


@every
def test_what_pip_installs_is_pinned_with_its_hash(path: Path) -> None:
    for each in instructions(path):
        for command in " ".join(each.words).split("&&"):
            if each.name == "RUN" and re.search(r"pip\b.* install", command):
                assert (
                    "--require-hashes" in command
                    or "--no-deps --no-build-isolation -e ." in command
                )


def test_the_devcontainer_copies_what_builds_the_programs(tmp_path: Path) -> None:
    """Its layers of programs hold only a part of the sources, so that they are rarely built."""
    stage = False
    for each in instructions(ROOT / ".devcontainer" / "Dockerfile"):
        if each.name == "FROM":
            stage = each.words[-1] == "programs"
        paths_copied = [word for word in each.words if not word.startswith("--")]
        own = not any(word.startswith("--from=") for word in each.words)
        if stage and each.name == "COPY" and own:
            *sources, target = paths_copied
            for source in sources:
                place = tmp_path / target
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place)
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, place)
    assert (tmp_path / "tools" / "fairlead").is_dir()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.rego").touch()
    imports = "from fairlead.cli import output; from fairlead.programs import toolchain"
    subprocess.run(
        [sys.executable, "-c", f"{imports}; print(toolchain.OWN)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "tools"},
        check=True,
    )


def loaded() -> list[str]:
    """All modules that the commands of the image import at their start, and re2, which policies in
    Python use.
    """
    commands = ("sync", "controller", "serve")
    modules = ["fairlead.__main__", *(f"fairlead.cli.processes.{name}" for name in commands), "re2"]
    script = f"import {', '.join(modules)}, sys, json; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    names: list[str] = json.loads(done.stdout)
    return names


def test_the_sidecar_has_the_packages_that_sync_imports_and_what_they_need() -> None:
    distributions = metadata.packages_distributions()
    packages: set[str] = set()
    left = {name for module in loaded() for name in distributions.get(module.split(".")[0], [])}
    # the second is loaded by its own hook, in every Python that has it
    left -= {"fairlead", "setuptools"}
    while left:
        name = left.pop()
        if canonicalize_name(name) in packages:
            continue
        packages.add(canonicalize_name(name))
        needs = map(Requirement, metadata.requires(name) or [])
        left |= {
            each.name
            for each in needs
            if each.marker is None or each.marker.evaluate({"extra": ""})
        }
    listed = (SIDECAR.parent / "packages.txt").read_text().split()
    assert listed == sorted(packages), "bring integration/image/packages.txt up to this"


def test_each_package_of_the_sidecar_is_pinned() -> None:
    pinned = re.findall(r"^(\S+)==\S+ \\$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert set((SIDECAR.parent / "packages.txt").read_text().split()) <= set(pinned)


@pytest.fixture
def collect() -> ModuleType:
    spec = importlib.util.spec_from_file_location("collect", SIDECAR.parent / "collect.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sidecar_has_every_module_that_sync_imports_and_no_other_command(
    collect: ModuleType,
) -> None:
    files = {str(path) for path in collect.own_modules(ROOT / "tools")}
    needed = {name.replace(".", "/") for name in loaded() if name.split(".")[0] == "fairlead"}
    assert needed <= {file.removesuffix(".py").removesuffix("/__init__") for file in files}
    commands = {file for file in files if file.startswith("fairlead/cli/")}
    assert commands == {
        *(
            f"fairlead/cli/{name}.py"
            for name in ("__init__", "component_options", "output", "own_commands")
        ),
        *(
            f"fairlead/cli/processes/{name}.py"
            for name in (
                *("__init__", "controller", "health_server", "renewal_options"),
                *("serve", "server_options", "sync"),
            )
        ),
    }


def test_sync_loads_nothing_that_the_sidecar_leaves_out(collect: ModuleType) -> None:
    left_out = [
        pattern.removesuffix(".py") for pattern in (*collect.UNUSED, *collect.UNUSED_PACKAGES)
    ]
    loaded_paths = [Path(name.replace(".", "/")) for name in loaded()]
    assert Path("kubernetes/client") in loaded_paths
    left = [path for path in loaded_paths if any(path.match(pattern) for pattern in left_out)]
    # kopf does without these models.
    assert {path.stem for path in left} <= {
        "v1_managed_fields_entry",
        "v1_object_meta",
        "v1_owner_reference",
    }


_BROUGHT = """
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.policy import parameter_rules, staging, workspace
from fairlead.policy.policy_objects import PolicyObjects

silent = Progress()
decision = '{"deny": set(), "patch": [], "warn": set()}'
rego = f"package some_label\\n\\ndecision := {decision}\\n"
label = {"type": "string", "default": "a", "x-kubernetes-validations": [{"rule": "self != ''"}]}
intent = {
    "requests": [{"kinds": ["v1/Pod"], "operations": ["CREATE"]}],
    "parameters": {"properties": {"label": label}},
}
policy = {
    "metadata": {"name": "some-label"},
    "spec": {"rego": rego, "intent": intent, "parameters": {"label": "b"}},
}
objects = PolicyObjects.read({"metadata": {"name": "fairlead"}, "spec": {}}, [policy])
policies = objects.policy_set(parameter_rules.rules(silent))
workspace.require_sound(policies, silent)
staged = staging.staged(policies, "opa", silent)
print(len(manifests.render_objects(staged, Credentials("t", b"", b"", b""))))
"""


def test_the_controller_has_the_files_and_programs_with_which_it_brings_policies_into_force(
    tmp_path: Path,
) -> None:
    home, programs = tmp_path / "home", tmp_path / "programs"
    target = "/image/usr/share/fairlead/"
    for each in instructions(SIDECAR):
        if each.name != "COPY" or not each.words[-1].startswith(target):
            continue
        source, destination = each.words[0], each.words[1].removeprefix(target)
        (home / destination).parent.mkdir(parents=True, exist_ok=True)
        (home / destination).symlink_to(ROOT / source)
    programs.mkdir()
    for name, path in toolchain.ensure(["opa", toolchain.MATCHER]).items():
        (programs / name).symlink_to(path)
    environment = {"FAIRLEAD_HOME": str(home), "FAIRLEAD_PROGRAMS": str(programs)}
    done = subprocess.run(
        [sys.executable, "-c", _BROUGHT],
        env={**os.environ, **environment, "PATH": "/nowhere"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "48"), done.stderr
