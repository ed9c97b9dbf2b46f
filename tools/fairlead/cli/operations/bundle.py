"""`fairlead bundle`: policies and data as signed bundles, for OPAs of many clusters."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import click
import yaml

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.component_options import FILE, duration
from fairlead.common import atomic_files
from fairlead.common.errors import InputError, UsageError
from fairlead.distribution import archives, component, configuration, contents, signatures
from fairlead.distribution.archives import NAMES, POLICIES
from fairlead.distribution.configuration import PERSISTED, Following
from fairlead.distribution.repositories import Repository
from fairlead.policy import policy_files, tables

_scope = click.option(
    "--scope",
    default=signatures.SCOPE,
    show_default=True,
    help="Whom the bundle is for; an OPA takes only bundles that are signed for its scope.",
)


@click.group()
def command() -> None:
    """Give policies and data to the OPAs of many clusters, as signed bundles.

    Build a bundle, sign it, and put it onto any HTTPS server or OCI registry. Each OPA follows the
    server, verifies the signature, and keeps the bundle on its disk. See docs/scale.md.
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
    pair = signatures.new_key()
    _write(file, pair.pem)
    _write(public, pair.public.pem)
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
    further = [policy_files.SIGNED]
    policies = options.load_policies(settings_file, policies_folder, further=further)
    if data_files or namespaces:
        read = tables.namespace_labels(policies.active, policies.settings)
        labels = sorted([policies.settings.namespace_label, *read])
        with out.progress() as progress:
            archive = contents.data(contents.documents(data_files, namespaces, labels, progress))
    else:
        with out.progress() as progress:
            archive = contents.policies(policies, progress)
    _write(target, archive.packed())
    out.line(f"{target}: {archive.name}, revision {archive.revision}")


@command.command()
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--key", "key_file", type=FILE, required=True, help="The private key.")
@_scope
@click.option(
    "--expires-in",
    metavar="DURATION",
    callback=duration,
    help="After this time, such as 30d, no OPA decides by the bundle.  [default: never]",
)
def sign(file: Path, key_file: Path, scope: str, expires_in: timedelta | None) -> None:
    """Sign a bundle, in its file. To go back to an earlier revision, sign its file again."""
    archive, private = archives.read(file), signatures.private_key(key_file)
    now = int(time.time())
    signed = signatures.sign(archive, private, scope=scope, now=now, lasts=expires_in)
    _write(file, signed.packed())
    instant = datetime.fromtimestamp(now, UTC)
    out.line(
        f"{file}: {signed.name}, revision {signed.revision}, signed {instant:%Y-%m-%dT%H:%M:%SZ}"
    )


def _url(_: click.Context, __: click.Parameter, value: str) -> str:
    """The URL, if it is one of a server or a registry. Raises UsageError."""
    if Repository.parse(value):
        return value
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(f"--url: {value!r} is not a URL such as https://policies.example.com")
    return value


@command.command()
@click.option(
    "--url",
    required=True,
    callback=_url,
    help="The server, such as https://policies.example.com, or a part of an OCI registry, such as "
    "oci://registry.example.com/fleet",
)
@click.option("--plain-http", "plain", is_flag=True, help="The registry speaks HTTP without TLS.")
@click.option(
    "--public-key",
    "public_keys",
    type=FILE,
    multiple=True,
    required=True,
    help="A key that may sign; repeatable, so that one can replace another.",
)
@_scope
@click.option(
    "--bundle",
    "names",
    type=click.Choice(NAMES),
    multiple=True,
    default=(POLICIES,),
    show_default=True,
    help="A bundle to follow; repeatable.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    help="The file on OPA's machine with the server's CA.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="The file on OPA's machine with the server's token; of a registry, USER:PASSWORD.",
)
@click.option(
    "--persist",
    type=click.Path(path_type=Path),
    default=PERSISTED,
    show_default=True,
    help="The folder on OPA's machine in which it keeps bundles.",
)
@click.option(
    "--signed-since",
    metavar="TIME|BUNDLE",
    help="Decide by no bundle that was signed before this time, such as 2026-11-24T09:00Z, or "
    "before this file was.",
)
@click.option(
    "--label",
    "labels",
    metavar="NAME=VALUE",
    multiple=True,
    help="What the OPA calls itself in its decision logs, such as cluster=paris; repeatable.",
)
@click.option(
    "--kustomize",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a kustomize component for the base of `fairlead render`. It gets a copy of "
    "--ca-file.",
)
@click.option(
    "--token-secret",
    metavar="NAME",
    help="With --kustomize: the Secret in the namespace fairlead whose key `token` is the token.",
)
def config(
    url: str,
    plain: bool,
    public_keys: tuple[Path, ...],
    scope: str,
    names: tuple[str, ...],
    ca_file: Path | None,
    token_file: Path | None,
    persist: Path,
    signed_since: str | None,
    labels: tuple[str, ...],
    folder: Path | None,
    token_secret: str | None,
) -> None:
    """Print the configuration of an OPA that follows a server, for `opa run --config-file`.

    With --kustomize, write what makes the OPAs of `fairlead render` follow it.
    """
    following = Following(
        url=url,
        names=names,
        keys=[signatures.public_key(path) for path in public_keys],
        scope=scope,
        ca=ca_file,
        token=token_file,
        persisted=persist,
        since=_instant(signed_since),
        labels=dict(map(_label, labels)),
        plain=plain,
    )
    if folder is None:
        if token_secret:
            raise UsageError("--token-secret is about --kustomize: name the file by --token-file")
        out.line(yaml.safe_dump(configuration.document(following), sort_keys=False).rstrip())
        return
    texts = {folder / name: text for name, text in component.files(following, token_secret).items()}
    for path in texts:
        if path.exists() and not component.is_made(folder):
            raise UsageError(f"{path}: exists, and no component made it: name another folder")
    atomic_files.write_all(texts)
    out.files(list(texts), "table")


def _write(path: Path, content: bytes) -> None:
    try:
        atomic_files.write_private(path, content)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({error.strerror}): name another file"
        ) from error


def _instant(text: str | None) -> datetime | None:
    """A time, or that at which the bundle of this path was signed. Raises UsageError and
    InputError.
    """
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        path = Path(text)
        if not path.is_file():
            raise UsageError(
                f"--signed-since: {text!r} is not a time such as 2026-11-24T09:00Z, and no file"
            ) from error
        signed = archives.read(path).signed
        if signed is None:
            raise InputError(path, "is not signed: run `fairlead bundle sign`") from error
        return datetime.fromtimestamp(signed, UTC)
    return instant.replace(tzinfo=instant.tzinfo or UTC)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value) or name == "bundles_signed_since":
        raise UsageError(f"--label: {text!r} is not a label such as cluster=paris")
    return name, value
