"""`fairlead tools --outdated` names the pins that are older than their registry's newest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fairlead.cli import tools
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import toolchain
from fairlead.programs.toolchain import golang, newest, recipe
from fairlead.programs.toolchain.golang import Go
from fairlead.programs.toolchain.newest import Pin
from fairlead.programs.toolchain.programs import PROGRAMS

OPA = "github.com/open-policy-agent/opa"
ETCD = "go.etcd.io/etcd/server/v3"


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, object]]:
    """What the Go module proxy answers, by path: at first, every module is at its pin."""
    answers: dict[str, dict[str, object]] = {}
    for program in PROGRAMS:
        if not program.own:
            path, version = recipe.pinned(program)
            answers[path] = {"Path": path, "Version": f"v{version}", "GoVersion": "1.17"}
    packages = [
        {"name": "Click", "version": "8.0.0", "latest_version": "8.1.0"},
        {"name": "pytest", "version": "9.1.0", "latest_version": "9.2.0"},
        {"name": "needed-by-another", "version": "1", "latest_version": "2"},
    ]

    def output(argv: Sequence[str], env: Mapping[str, str], folder: str) -> str:
        if argv[1] == "list":
            asked = [query.removesuffix("@latest") for query in argv[5:]]
            return "go: downloading\n" + "\n".join(json.dumps(answers[path]) for path in asked)
        return f"WARNING: something\n{json.dumps(packages)}"

    monkeypatch.setattr(newest, "_output", output)
    monkeypatch.setattr(golang, "provide", lambda *_: Go(Path("go"), own=True))
    monkeypatch.setattr(golang, "version_of", lambda _: (1, 26, 8))
    return answers


def older() -> dict[str, Pin]:
    return {pin.name: pin for pin in newest.older(Progress())}


def test_what_is_newer_in_a_registry_is_told(registries: dict[str, dict[str, object]]) -> None:
    registries[OPA]["Version"] = "v1.999.0"
    pin = older()[OPA]
    assert (pin.kind, pin.newest, pin.held) == ("Go module", "1.999.0", None)
    assert f"v{pin.pinned}" == f"v{recipe.load('opa').version}"


def test_what_needs_a_newer_go_is_held(registries: dict[str, dict[str, object]]) -> None:
    registries[ETCD] |= {"Version": "v3.999.0", "GoVersion": "1.27.0"}
    assert older()[ETCD].held == "it needs Go 1.27.0"


def test_of_python_packages_those_count_that_are_required(
    registries: dict[str, dict[str, object]],
) -> None:
    pins = older()
    assert set(pins) == {"Click", "pytest"}
    assert pins["Click"].held is None
    assert pins["pytest"].held == "requirements say <9.2"


def test_a_registry_that_does_not_answer_is_an_error(
    registries: dict[str, dict[str, object]],
) -> None:
    registries[OPA]["Error"] = {"Err": "no such host"}
    with pytest.raises(FairleadError, match=f"the newest {OPA} is not known: no such host"):
        older()


@pytest.mark.parametrize(
    ("pins", "code"),
    [
        ([], 0),
        ([Pin("a", "Go module", "1.0", "1.1", "it needs Go 1.27.0")], 0),
        ([Pin("a", "Go module", "1.0", "1.1")], 1),
    ],
)
def test_the_exit_code_says_whether_something_could_be_newer(
    pins: list[Pin], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "older", lambda _: pins)
    assert tools._outdated("json") == code
