"""Which ConstraintTemplates are those of Gatekeeper's library: their code says so, and not their
names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.common import yaml_files
from fairlead.convert.findings import Origin, origin_of
from fairlead.convert.gatekeeper_constraints import CONSTRAINTS, LIMITS_BEFORE_1_1
from fairlead.convert.reading import group_of
from fairlead.convert.targets import Untakable

GROUP = "templates.gatekeeper.sh"

# The digest (see `digest`) of the code of each version that the library has for Artifact Hub, and
# what it means.
_LIBRARY: Mapping[str, str] = {
    "832f2e66feec6d581e7ca597": "K8sAllowedRepos",
    "856243fc99328b02dd3259ba": "K8sAllowedRepos",
    "259dfdd16d83b9b6af294af2": "K8sAllowedReposv2",
    "ed6e35c6e0d1bd6d863ac2d2": "K8sContainerEphemeralStorageLimit",
    "6ac78282c3a35e40db1f2261": "K8sContainerEphemeralStorageLimit",
    "e38908d67177f7364ee3d8b0": "K8sContainerEphemeralStorageLimit",
    "ceb111aba691472b26866825": "K8sContainerLimits",
    "280298fd149c2bf6a863650a": "K8sContainerRequests",
    "2ee28d3347e2801e3d822ceb": "K8sContainerRequests",
    "989f471474b464205a3dba46": "K8sImageDigests",
    "40d07f1d21cd98a0b06ee28b": "K8sImageDigests",
    "2dcc93f754d99cd7ab13ec4a": "K8sPSPAllowedUsers",
    "4f6e737869502c72ba6583ce": "K8sPSPAllowedUsers",
    "a04d66b74f58fdc4d15564ac": "K8sPSPAllowedUsers",
    "14939ec2ca256012f5ed8b8d": "K8sReplicaLimits",
    "2820d500623a2cb0272ac94e": "K8sReplicaLimits",
    "e207b62cf58e419a1097f8aa": "K8sReplicaLimits",
    "f7f8e892be78040a753dcf98": "K8sRequiredLabels",
    "4c97a1289a55652955ba0766": "K8sRequiredLabels",
    "c1ced210755c380a2856aee7": "K8sRequiredLabels",
    "5fff720b7d8afbfc8fcc8719": "K8sRequiredLabels",
    "06fa5efde36386ae730c41d0": "K8sRequiredLabels",
    "6d401aeedccc46820a72df9a": "K8sRequiredResources",
    "dbe14af36ed9363f50f90ac5": LIMITS_BEFORE_1_1,
    "e262e6b2cf2339af04a7efd6": LIMITS_BEFORE_1_1,
}

_NEAREST = {
    "K8sContainerRatios": "resource-limits is nearest, but compares no limit with a request",
    "K8sDisallowedRepos": "image-sources is nearest, but lists the sources that are allowed",
    "K8sDisallowedTags": "image-sources is nearest, but is about registries and digests, not tags",
    "K8sHorizontalPodAutoscaler": "replica-limits with autoscalers: true is nearest",
    "K8sRequiredAnnotations": "required-labels is nearest, but is about labels",
}


class Library:
    """The ConstraintTemplates among some documents."""

    def __init__(self, documents: Iterable[yaml_files.Document]) -> None:
        self._templates: dict[str, list[tuple[Origin, str | None]]] = {}
        for document in documents:
            if group_of(document.value) == GROUP and _sources(document.value):
                entry = (origin_of(document), _LIBRARY.get(digest(document.value)))
                self._templates.setdefault(_defined(document.value), []).append(entry)

    def constraint(self, kind: str) -> tuple[str, bool]:
        """The kind in CONSTRAINTS that constraints of a `kind` mean, and whether only their name
        says so, because the template is not among the documents. Raises Untakable.
        """
        templates = self._templates.get(kind)
        if not templates:
            if kind not in CONSTRAINTS:
                raise Untakable(_unknown(kind))
            return kind, True
        meanings = {meaning for _, meaning in templates}
        if len(meanings) > 1:
            places = ", ".join(origin.source for origin, _ in templates)
            raise Untakable(
                f"several templates define it ({places}): convert one cluster at a time"
            )
        (meaning,) = meanings
        if meaning is None:
            raise Untakable(
                f"its ConstraintTemplate ({templates[0][0].source}) has other code than the "
                "constraints of the library that convert knows: write a policy (fairlead new "
                "policy NAME)"
            )
        return meaning, False

    def check(self, template: Mapping[str, Any]) -> None:
        """Raises Untakable if a template is not one that convert knows."""
        is_named = not _sources(template) and _defined(template) in CONSTRAINTS
        if not is_named and digest(template) not in _LIBRARY:
            raise Untakable(
                "its code is none of the library's that convert knows, and is not read: write a "
                "policy (fairlead new policy NAME)"
            )


def _unknown(kind: str) -> str:
    if kind in _NEAREST:
        return (
            f"no intent of Fairlead says the same ({_NEAREST[kind]}): write a policy (fairlead new "
            "policy NAME)"
        )
    return (
        "convert knows no intent that says the same as a constraint of this name, and the code of "
        "its ConstraintTemplate is not in the input: write a policy (fairlead new policy NAME)"
    )


def _defined(template: Mapping[str, Any]) -> str:
    """The kind of the constraints of a ConstraintTemplate."""
    return str(_below(template, "spec", "crd", "spec", "names", "kind"))


def _sources(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The code of a template, by target."""
    targets = _below(template, "spec", "targets")
    return [
        code
        for target in (targets if isinstance(targets, list) else [])
        if isinstance(target, dict)
        and (code := {key: target[key] for key in ("rego", "libs", "code") if target.get(key)})
    ]


def digest(template: Mapping[str, Any]) -> str:
    """What the code of a template comes to: its Rego and CEL without comments, without spaces that
    mean nothing, and without the name of its package.
    """
    sources = _plain(_sources(template))
    defaults = _defaults(_below(template, "spec", "crd", "spec", "validation"))
    text = json.dumps([sources, sorted(defaults)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


# What Rego consists of: texts, comments, words, ends of lines, and all else but spaces.
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|`[^`]*`|#[^\n]*|\w+|\n|[^\w\s]')


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(part, name) for name, part in value.items() if part}
    if isinstance(value, list):
        return [_plain(part, key) for part in value]
    if key not in ("rego", "libs"):
        return value
    tokens = (token for token in _TOKEN.findall(str(value)) if not token.startswith("#"))
    lines = [line.strip("\0") for line in "\0".join(tokens).split("\n")]
    lines = [line for line in lines if line]
    names_package = lines and re.fullmatch(r"package\0\w+", lines[0])
    return lines[1:] if names_package else lines


def _defaults(schema: Any) -> Iterator[str]:
    """The values that the schema gives to parameters that a constraint leaves out."""
    if isinstance(schema, dict):
        if schema.get("default") is not None:
            yield json.dumps(schema["default"], sort_keys=True)
        for part in schema.values():
            yield from _defaults(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _defaults(part)


def _below(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
