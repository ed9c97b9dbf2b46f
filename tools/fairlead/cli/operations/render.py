"""`fairlead render`: write the manifests as files, for GitOps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from fairlead import engines
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common.errors import UsageError
from fairlead.deployment import kustomize, manifests
from fairlead.deployment import render as library
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.deployment.sidecars import DEFAULT, KUBE_MGMT
from fairlead.engines.base import UnsupportedSettings
from fairlead.opa import bundle_files
from fairlead.operations import strategies
from fairlead.operations.strategies import python
from fairlead.policy import fairlead_yaml, policy_objects

_UNNAMED = (
    f"the sidecar is {DEFAULT.name}: if yours is {KUBE_MGMT.name}, keep it by "
    f"--sidecar {KUBE_MGMT.name}"
)


@click.command()
@options.settings
@options.policies
@click.option(
    "--engine",
    default=OPA_ENGINE,
    show_default=True,
    metavar="NAME",
    help="What enforces the policies: opa, python, cel for admission policies without OPA, "
    "gatekeeper, or kyverno.",
)
@options.sidecar
@click.option(
    "--secrets",
    "secrets_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep the token and the certificate in FILE, so that the next output is the same.",
)
@click.option("--renew", is_flag=True, help="Replace the token and the certificate in FILE now.")
@click.option(
    "--kustomize",
    "base",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write a kustomize base without credentials into DIR; with --secrets, also the overlay "
    "beside FILE.",
)
@click.option(
    "--objects",
    "as_objects",
    is_flag=True,
    help="Print the settings and the policies of further folders as the objects Fairlead and "
    "Policy, which the controller of a deployment brings into force. With --kustomize, write them "
    "into DIR with all that the controller does not make itself.",
)
@options.output
def command(
    settings_file: Path | None,
    policies_folder: Path | None,
    engine: str,
    sidecar: str | None,
    secrets_file: Path | None,
    renew: bool,
    base: Path | None,
    as_objects: bool,
    output: str,
) -> None:
    """Print all manifests, or write them as a kustomize base, for clusters that other tools deploy
    to.

    If the certificate in FILE ends within 30 days, it is renewed, with a note on stderr. See
    docs/gitops.md and docs/rendered-manifests.md.
    """
    policies = options.load_policies(settings_file, policies_folder)
    if as_objects:
        if sidecar or secrets_file or renew or engine != OPA_ENGINE:
            raise UsageError(
                "--objects is about settings and policies, and the controller makes the rest: "
                "leave out --sidecar, --secrets, --renew and --engine"
            )
        if base:
            _written(kustomize.write(library.render_for_objects(policies), base), output)
            return
        objects = policy_objects.of_policy_set(policies)
        out.emit(objects, output, lambda _: out.line(manifests.to_yaml(objects).rstrip()))
        return
    if engine == PYTHON_ENGINE:
        strategies.refuse_sidecar(engine, sidecar)
        sidecar = python.require(policies)
    elif engine != OPA_ENGINE:
        if sidecar or secrets_file or renew or base:
            raise UsageError(
                "--sidecar, --secrets, --renew and --kustomize are about pods: leave them out with "
                f"--engine {engine}"
            )
        with out.progress() as progress:
            bundle_files.check(policies.modules, progress)  # the engine itself may read no Rego
        try:
            objects = engines.render(engine, policies)
        except UnsupportedSettings as error:
            raise fairlead_yaml.located(settings_file, error.mistakes) from error
        out.emit(objects, output, lambda _: out.line(manifests.to_yaml(objects).rstrip()))
        return
    with out.progress() as progress:
        rendered = library.render(
            policies, sidecar=sidecar, secrets=secrets_file, renew=renew, progress=progress
        )
    unnamed = () if sidecar else (_UNNAMED,)
    if base:
        _written(kustomize.write(rendered, base), output, unnamed)
        return
    for note in (*filter(None, [rendered.save()]), *unnamed):
        out.note(note)
    objects = rendered.printed
    out.emit(objects, output, lambda _: out.line(manifests.to_yaml(objects).rstrip()))


def _written(written: kustomize.Written, output: str, notes: Iterable[str] = ()) -> None:
    for note in (*written.notes, *notes):
        out.note(note)
    rows = [{"file": str(path), "state": state} for path, state in written.states.items()]
    out.emit(rows, output, out.rows(None, ("file", "state"), rows))
