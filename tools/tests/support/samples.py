"""The samples of other engines in testdata/samples, as cases with the settings beside them."""

from __future__ import annotations

from typing import Any

from fairlead.common import files, paths
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Engine
from fairlead.policy.cases import Case, Expect, Namespace, Request
from fairlead.settings import loading

FOLDER = paths.root() / "testdata" / "samples"


def manifests(*names: str) -> list[dict[str, Any]]:
    """The objects in these files."""
    return [document.value for name in names for document in files.read_yaml(FOLDER / name)]


def case(sample: str, request: Request, *, allowed: bool, name: str) -> Case:
    """The case of a request in the sample's namespace."""
    path = FOLDER / sample / "fairlead.yaml"
    settings = loading.load(path)
    (intent,) = {chosen.intent for chosen in settings.intents.values() if chosen.intent}
    (namespace,) = manifests(f"{sample}/namespace.yaml")
    metadata = namespace["metadata"]
    return Case(
        name=name,
        intent=intent,
        settings=settings,
        given={},
        namespace=Namespace(name=metadata["name"], labels=metadata["labels"]),
        request=request,
        expect=Expect(allowed=allowed),
        path=path,
        line=1,
    )


def creations(sample: str, part: str, *, allowed: bool = True) -> list[Case]:
    """A case for each object in a folder of the sample, named like the object."""
    return [
        case(
            sample,
            Request(operation="CREATE", object=manifest),
            allowed=allowed,
            name=f"{part}: {manifest['kind']} {manifest['metadata']['name']}",
        )
        for manifest in manifests(f"{sample}/{part}/objects.yaml")
    ]


def decisions(engine: Engine, asked: list[Case]) -> dict[str, Decision]:
    """The decisions of an engine, by the names of the cases."""
    outcomes = {case.name: outcome for case, outcome in engine.decide(asked, Progress())}
    decided = {name: each for name, each in outcomes.items() if isinstance(each, Decision)}
    assert decided == outcomes
    return decided
