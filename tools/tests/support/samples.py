"""The samples of other engines in testdata/samples, as cases with the settings beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.common import paths, yaml_files
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Engine
from fairlead.policy import fairlead_yaml
from fairlead.policy.cases import Case, Expect, Namespace, Request

FOLDER = paths.root() / "testdata" / "samples"


def manifests(*names: str) -> list[dict[str, Any]]:
    """The objects in these files."""
    return [document.value for name in names for document in yaml_files.read_yaml(FOLDER / name)]


def case(sample: str, request: Request, *, allowed: bool, name: str) -> Case:
    """The case of a request in the sample's namespace. Of several intents, it names the first."""
    path = FOLDER / sample / "fairlead.yaml"
    settings = fairlead_yaml.load(path)
    chosen = {name: each for name, each in settings.intents.items() if each.enabled}
    (namespace,) = manifests(f"{sample}/namespace.yaml")
    metadata = namespace["metadata"]
    return Case(
        name=name,
        intent=min(each.intent or name for name, each in chosen.items()),
        settings=settings,
        given={},
        namespace=Namespace(name=metadata["name"], labels=metadata.get("labels", {})),
        request=request,
        expect=Expect(allowed=allowed),
        path=path,
        line=1,
    )


def creations(sample: str, part: str, *, allowed: bool = True) -> list[Case]:
    """A case for each object in a folder of the sample, named like the object."""
    paths = sorted((FOLDER / sample / part).glob("*.yaml"))
    return [
        case(
            sample,
            Request(operation="CREATE", object=manifest),
            allowed=allowed,
            name=f"{part}: {title(manifest)}",
        )
        for manifest in manifests(*(str(path.relative_to(FOLDER)) for path in paths))
    ]


def both(sample: str) -> list[Case]:
    """A case for each object that the sample allows, and for each that it refuses."""
    return [*creations(sample, "allowed"), *creations(sample, "refused", allowed=False)]


def title(manifest: Mapping[str, Any]) -> str:
    """The kind and the name of an object."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def decisions(engine: Engine, asked: list[Case]) -> dict[str, Decision]:
    """The decisions of an engine, by the names of the cases."""
    outcomes = {case.name: outcome for case, outcome in engine.decide(asked, Progress())}
    decided = {name: each for name, each in outcomes.items() if isinstance(each, Decision)}
    assert decided == outcomes
    return decided
