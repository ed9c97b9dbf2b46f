"""`fairlead bundle`: policies and data as signed bundles, for OPAs of many clusters."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import click

from fairlead.cli import bundle_followers, options
from fairlead.cli import bundle_options as shared
from fairlead.cli import output as out
from fairlead.cli.component_options import FILE
from fairlead.common import atomic_files, durations
from fairlead.common.errors import UsageError
from fairlead.distribution import archives, client, contents, signatures
from fairlead.policy import bundles, tables


@click.group()
def command() -> None:
    """Give policies and data to the OPAs of many clusters, as signed bundles.

    Build a bundle, sign it, and push it to a server. Each OPA follows the server, verifies the
    signature, keeps the bundle on its disk, and reports which revision it has. See docs/scale.md.
    """


@command.command()
@click.argument("file", metavar="FILE", type=FILE)
@options.output
def key(file: Path, output: str) -> None:
    """Make a key: FILE signs, and FILE.pub verifies. Keep FILE where bundles are signed."""
    public = file.with_name(f"{file.name}.pub")
    for path in (file, public):
        if path.exists():
            raise UsageError(f"{path}: exists already: remove it, or name another file")
    made = signatures.new_key()
    _write(file, made.pem)
    _write(public, made.public.pem)
    out.files([file, public], output)


@command.command()
@click.option("-o", "--output-file", "target", type=FILE, required=True, help="The bundle.")
@click.option(
    "--data",
    "data_files",
    type=FILE,
    multiple=True,
    help="Build a bundle of data instead: the documents in this YAML or JSON file; repeatable.",
)
@click.option(
    "--namespaces",
    type=FILE,
    help="The same, with the pool labels of these Namespaces (`kubectl get namespaces -o json`).",
)
@options.settings
@options.policies
def build(
    target: Path,
    data_files: tuple[Path, ...],
    namespaces: Path | None,
    settings_file: Path | None,
    policies_folder: Path | None,
) -> None:
    """Build the bundle of the policies with the settings, or with --data or --namespaces one of
    data. The same content gives the same bytes.
    """
    settings = options.load(settings_file)
    if data_files or namespaces:
        active = bundles.bundle(settings, policies_folder).active(settings)
        labels = sorted([settings.namespace_label, *tables.namespace_labels(active, settings)])
        archive = contents.data(contents.documents(data_files, namespaces, labels))
    else:
        with out.progress() as progress:
            archive = contents.policies(settings, policies_folder, progress)
    _write(target, archive.packed())
    out.line(f"{target}: {archive.name}, revision {archive.revision}")


@command.command()
@shared.file
@click.option("--key", "key_file", type=FILE, required=True, help="The private key.")
@shared.scope
@click.option(
    "--expires-in",
    metavar="DURATION",
    help="After this time, such as 30d, no OPA decides by the bundle.  [default: never]",
)
def sign(file: Path, key_file: Path, scope: str, expires_in: str | None) -> None:
    """Sign a bundle, in its file. To go back to an earlier revision, sign and push it again."""
    archive, private = archives.read(file), signatures.private_key(key_file)
    signed = signatures.sign(
        archive, private, scope=scope, now=int(time.time()), lasts=_duration(expires_in)
    )
    _write(file, signed.packed())
    out.line(
        f"{file}: {signed.name}, revision {signed.revision}, signed {shared.time(signed.signed)}"
    )


@command.command()
@shared.file
@shared.url
@shared.token
@shared.ca
@shared.plain
@shared.keys(required=False)
@shared.scope
def push(
    file: Path,
    url: str,
    token_file: Path | None,
    ca_file: Path | None,
    plain: bool,
    public_keys: tuple[Path, ...],
    scope: str,
) -> None:
    """Put a signed bundle onto a server, by HTTP PUT, or into an OCI registry. With --public-key,
    verify it first.
    """
    archive = archives.read(file)
    packed = archive.packed()
    if public_keys:
        client.check(archive, packed, shared.public(public_keys), scope, file)
    target = client.push(url, archive, packed, token=token_file, ca=ca_file, plain=plain)
    out.line(f"{target}: {archive.name}, revision {archive.revision}")


for follower in (bundle_followers.serve, bundle_followers.config, bundle_followers.status):
    command.add_command(follower)


def _write(path: Path, content: bytes) -> None:
    try:
        atomic_files.write_private(path, content)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({error.strerror}): name another file"
        ) from error


def _duration(text: str | None) -> timedelta | None:
    try:
        return durations.parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"--expires-in: {error}") from error
