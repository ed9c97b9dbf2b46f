"""What bundles hold: the policies with their settings, or thin data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.distribution import archives
from fairlead.distribution.archives import DATA, POLICIES, Archive
from fairlead.opa import bundle_files
from fairlead.placement import data_sources
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import PACKAGE
from fairlead.sync.desired import Desired

DECISION = "signed_bundle/main"
"""What an OPA that follows bundles answers `POST /` with (OPA's setting `default_decision`)."""
_ADMISSION = "fairlead_admission"
"""The package of main.rego in a bundle. A bundle owns whole packages: one with the package `system`
would replace the authz policy, which is each cluster's own."""
_OF_SYSTEM = re.compile(r"\bdata\.system\.(?!health\b|authz\b|log\b|bundles\b)")
_SYSTEM = re.compile(r"^package\s+system\b(?!\.)", re.MULTILINE)
_WHOLE = re.compile(r"""\bdata\.system\b(?!\.)|\bdata\[["'`]system""")


def policies(policies: PolicySet, progress: Progress) -> Archive:
    """The bundle of these policies, which have policy_files.SIGNED. Raises InputError for a policy
    that cannot be in a bundle, and FairleadError if OPA does not take the policies.
    """
    staging.require_free_packages(policies.modules, policies.sources, progress)
    for key, text in policies.modules.items():
        if hit := _WHOLE.search(text):
            raise InputError(
                policies.sources.get(key, key),
                "names all of data.system, which has another name in a bundle: name a rule, such "
                "as data.system.main",
                line=text.count("\n", 0, hit.start()) + 1,
            )
    modules = {
        key: _OF_SYSTEM.sub(f"data.{_ADMISSION}.", _SYSTEM.sub(f"package {_ADMISSION}", text))
        for key, text in policies.modules.items()
    }
    bundle_files.check(modules, progress)
    return _archive(
        POLICIES,
        {key: text.encode() for key, text in modules.items()},
        {_root(match[1]) for text in modules.values() if (match := PACKAGE.search(text))},
    )


def _root(package: str) -> str:
    """The part of OPA's data that a bundle with this package owns: `system.health`, and of others
    all below their first name.
    """
    first, *segments = package.split(".")
    return "/".join((first, *segments)) if first == "system" else first


def data(documents: Mapping[str, Any]) -> Archive:
    """The bundle of these documents of OPA's data, by their names.

    It owns each of them, and of `kubernetes` only the kinds of objects that are there, so that a
    sidecar may write others.
    """
    roots = set()
    for name, value in documents.items():
        kinds = value if name == "kubernetes" and isinstance(value, dict) else None
        roots |= {f"{name}/{kind}" for kind in kinds} if kinds else {name}
    text = json.dumps(documents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return _archive(DATA, {"data.json": text.encode()}, roots)


def documents(
    paths: Iterable[Path], namespaces: Path | None, labels: list[str], progress: Progress
) -> dict[str, Any]:
    """The documents of files of data, and the thin form of the Namespaces in the manifests of a
    file: of each the `labels`, as the sidecar replicates them. Warns of keys of `placement` that
    are not read. Raises InputError.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        for document in yaml_files.read_yaml(path):
            if not isinstance(document.value, dict):
                raise InputError(path, "is not a mapping: name the documents of OPA's data", line=1)
            if "placement" in document.value:
                data_sources.check(document, str(yaml_files.shown(path)), progress)
            for name, value in document.value.items():
                if name in ("system", "signed_bundle") or name in merged:
                    problem = "stands in another file" if name in merged else "is OPA's own"
                    raise document.error(f"the document {name!r} {problem}: remove it", (name,))
                merged[name] = value
    if namespaces is not None:
        if "kubernetes" in merged:
            raise InputError(namespaces, "the data have the document 'kubernetes' already")
        merged["kubernetes"] = {"namespaces": _namespaces(namespaces, labels)}
    return merged


def _namespaces(path: Path, labels: list[str]) -> dict[str, Any]:
    """The thin namespaces, by name. Raises InputError."""
    sidecar = Desired((), namespace_labels=labels)
    thin: dict[str, Any] = {}
    for document in yaml_files.read_yaml(path):
        value = document.value
        is_list = isinstance(value, dict) and str(value.get("kind", "")).endswith("List")
        for item in value.get("items") or () if is_list else (value,):
            metadata = item.get("metadata") if isinstance(item, dict) else None
            if not isinstance(metadata, dict) or item.get("kind") != "Namespace":
                raise document.error(
                    "holds an object that is not a Namespace: write `kubectl get namespaces -o "
                    "json` into it"
                )
            name = str(metadata.get("name"))
            thin[name] = sidecar.thin(name, metadata.get("labels"), metadata.get("annotations"))
    return thin


def _archive(name: str, contents: Mapping[str, bytes], roots: Iterable[str]) -> Archive:
    return Archive(
        contents,
        {
            "revision": archives.revision(contents),
            "roots": sorted(roots),
            "rego_version": 1,
            "metadata": {"name": name},
        },
    )
