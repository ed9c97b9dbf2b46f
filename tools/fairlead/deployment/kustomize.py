"""Writes a kustomize base without secrets, and an overlay with the secrets of one deployment.

The base has no credentials and nothing derived from them, so it is the same for everyone:

- base/kustomization.yaml
- base/10-namespace.yaml, ...: a file for each template

The overlay is the folder of secrets.yaml:

- secrets.yaml: the two Secrets
- trust.yaml: a patch with the CA by which the API server verifies OPA (public)
- restart.yaml: a patch that replaces pods if credentials change, for sidecars that read them once
- kustomization.yaml: lists all of them; after its first line is removed, it is never overwritten
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fairlead.common import atomic_files
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.deployment.names import CREDENTIALS_ANNOTATION
from fairlead.deployment.render import Rendered

KUSTOMIZATION, TRUST, RESTART = "kustomization.yaml", "trust.yaml", "restart.yaml"
_OTHER_NAMES = ("kustomization.yml", "Kustomization")
"""Other names for a kustomization.yaml; kustomize accepts only one in a folder."""

# By how a file begins, whatever words follow, it is known as ours.
_BASE_MARK = "# Made by `fairlead render --kustomize`"
_OVERLAY_MARK = "# Made by `fairlead render --kustomize --secrets`"
_BASE = f"{_BASE_MARK}, which overwrites it: change settings or policies instead.\n"
_OVERLAY = f"{_OVERLAY_MARK}, which overwrites it.\n"
_KEEP = "# Remove the line above to make this file yours: it is then left as it is.\n"

_NAMED = ("name", "namespace")

State = Literal["written", "unchanged", "removed", "kept"]
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """The state of each file, and notes for people."""

    states: dict[Path, State]
    notes: tuple[str, ...]


def write(rendered: Rendered, base: Path) -> Written:
    """Write the base into the folder `base`. If a file keeps the Secrets, write it, and the overlay
    beside it.

    Files of other origin are never changed: if one is in the way, this raises UsageError before it
    writes anything. Only the overlay's kustomization.yaml may belong to the user.
    """
    secrets = rendered.secrets_file.path if rendered.secrets_file else None
    if secrets and secrets.parent.resolve().is_relative_to(base.resolve()):
        raise UsageError(
            f"{secrets}: is inside {base}, which holds no credentials: name a file outside, beside "
            "it"
        )
    parts = {name: _split(objects) for name, objects in rendered.files.items()}
    texts = _base(base, {name: objects for name, (objects, _) in parts.items() if objects})
    stale = [
        path for path in base.glob("*.yaml") if path not in texts and _begins(path, _BASE_MARK)
    ]
    notes: list[str] = []
    users_own: list[Path] = []
    if secrets:
        overlay = _overlay(
            base, secrets, [patch for _, patches in parts.values() for patch in patches]
        )
        kustomization = secrets.with_name(KUSTOMIZATION)
        if kustomization.exists() and not _begins(kustomization, _OVERLAY_MARK):
            users_own.append(kustomization)
            names = ", ".join(
                [
                    _relative(base, secrets),
                    *(path.name for path in [secrets, *overlay] if path != kustomization),
                ]
            )
            notes.append(f"{kustomization}: is yours and left as it is; it has to name {names}")
            del overlay[kustomization]
        elif secrets.with_name(RESTART) not in overlay and _begins(
            secrets.with_name(RESTART), _OVERLAY_MARK
        ):
            stale.append(secrets.with_name(RESTART))
        texts |= overlay
    _check(texts, secrets)
    changed = {path for path, text in texts.items() if _read(path) != text}
    if secrets and (note := rendered.save()):
        notes.append(note)
        changed.add(secrets)
    _write({path: text for path, text in texts.items() if path in changed})
    for path in stale:
        path.unlink()
    states: dict[Path, State] = dict.fromkeys(stale, "removed")
    states.update(dict.fromkeys(users_own, "kept"))
    for path in [*texts, *([secrets] if secrets else [])]:
        states[path] = "written" if path in changed else "unchanged"
    return Written(dict(sorted(states.items())), tuple(notes))


def _base(folder: Path, files: Mapping[str, list[Manifest]]) -> dict[Path, str]:
    texts = {folder / name: _BASE + manifests.to_yaml(objects) for name, objects in files.items()}
    return texts | {folder / KUSTOMIZATION: _BASE + _kustomization({"resources": list(files)})}


def _overlay(base: Path, secrets: Path, patches: list[Manifest]) -> dict[Path, str]:
    by_file: dict[str, list[Manifest]] = {}
    for patch in patches:
        by_file.setdefault(RESTART if patch["kind"] == "Deployment" else TRUST, []).append(patch)
    names = sorted(by_file, reverse=True)
    texts = {secrets.with_name(name): _OVERLAY + manifests.to_yaml(by_file[name]) for name in names}
    document = {
        "resources": [_relative(base, secrets), secrets.name],
        "patches": [{"path": name} for name in names],
    }
    # Last, as it names the others.
    return texts | {secrets.with_name(KUSTOMIZATION): _OVERLAY + _KEEP + _kustomization(document)}


def _kustomization(content: Manifest) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return manifests.to_yaml([head | content])


def _split(objects: list[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """The objects without anything derived from credentials, and the patches that add that."""
    remaining, patches = [], []
    # A copy through JSON, because parts that a YAML anchor repeats are one Python object.
    for manifest in json.loads(json.dumps(objects)):
        if manifest["kind"] == "Secret":
            continue
        remaining.append(manifest)
        added: Manifest = {}
        if manifest["kind"].endswith("WebhookConfiguration"):
            webhooks = [
                webhook for webhook in manifest["webhooks"] if "caBundle" in webhook["clientConfig"]
            ]
            bundles = {
                webhook["name"]: webhook["clientConfig"].pop("caBundle") for webhook in webhooks
            }
            if bundles:
                added["webhooks"] = [
                    {"name": name, "clientConfig": {"caBundle": ca}} for name, ca in bundles.items()
                ]
        elif manifest["kind"] == "Deployment":
            metadata = manifest["spec"]["template"]["metadata"]
            annotations = metadata.pop("annotations", {})
            if digest := annotations.pop(CREDENTIALS_ANNOTATION, None):
                added["spec"] = {
                    "template": {"metadata": {"annotations": {CREDENTIALS_ANNOTATION: digest}}}
                }
            if annotations:
                metadata["annotations"] = annotations
        if added:
            identity = {
                key: manifest["metadata"][key] for key in _NAMED if key in manifest["metadata"]
            }
            patches.append(
                {
                    "apiVersion": manifest["apiVersion"],
                    "kind": manifest["kind"],
                    "metadata": identity,
                    **added,
                }
            )
    return remaining, patches


def _check(texts: Mapping[Path, str], secrets: Path | None) -> None:
    """Raises UsageError if a file of other origin is in the way."""
    for path, text in texts.items():
        if secrets and path == secrets:
            raise UsageError(
                f"{secrets}: is the name of another file of the overlay: name it secrets.yaml"
            )
        if os.path.lexists(path) and not _begins(
            path, _BASE_MARK if text.startswith(_BASE_MARK) else _OVERLAY_MARK
        ):
            raise UsageError(
                f"{path}: was not made by `fairlead render`: move it away, or name another folder"
            )
    for folder in dict.fromkeys(path.parent for path in texts):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: is not a folder: name another one")
        for file in (folder / name for name in _OTHER_NAMES):
            if file.exists():
                raise UsageError(
                    f"{file}: kustomize takes no two kustomizations: move it away, or name "
                    "another folder"
                )


def _write(texts: Mapping[Path, str]) -> None:
    """Write all files. If one cannot be written, write none and raise UsageError."""
    try:
        atomic_files.write_all(texts)
    except OSError as error:
        raise UsageError(
            f"{error.filename}: cannot be written ({error.strerror}): name another folder"
        ) from error


def _begins(path: Path, mark: str) -> bool:
    return (_read(path) or "").startswith(mark)


def _read(path: Path) -> str | None:
    """The file's text; None if it does not exist or is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _relative(base: Path, secrets: Path) -> str:
    """The path of the base, relative to the overlay."""
    return os.path.relpath(base.resolve(), secrets.parent.resolve())
