"""`fairlead bundle`: policies and data as signed bundles, for OPAs of many clusters."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import yaml

from fairlead.cli import component_options, options
from fairlead.cli import output as out
from fairlead.cli.component_options import FILE
from fairlead.common import atomic_files, durations
from fairlead.common.errors import UsageError
from fairlead.distribution import archives, client, configuration, contents, signatures
from fairlead.distribution.archives import NAMES, POLICIES
from fairlead.distribution.configuration import PERSISTED, Following
from fairlead.distribution.signatures import SCOPE, PublicKey
from fairlead.policy import bundles, tables

_SEEN = ("name", "revision", "signed", "expires", "opas", "onRevision", "failing")

_scope = click.option(
    "--scope",
    default=SCOPE,
    show_default=True,
    help="Whom the bundle is for; an OPA takes only bundles that are signed for its scope.",
)
_file = click.argument("file", metavar="FILE", type=FILE)
_url = click.option("--url", required=True, help="The server, such as https://policies.example.com")
_token = click.option(
    "--token-file", type=FILE, help="A file with the token that the server asks for."
)
_ca = click.option(
    "--ca-file", type=FILE, help="The CA of the server, instead of the system's CAs."
)


def _keys(required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--public-key",
        "public_keys",
        type=FILE,
        multiple=True,
        required=required,
        help="A key that may sign; repeatable, so that one can replace another.",
    )


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
@_file
@click.option("--key", "key_file", type=FILE, required=True, help="The private key.")
@_scope
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
    out.line(f"{file}: {signed.name}, revision {signed.revision}, signed {_time(signed.signed)}")


@command.command()
@_file
@_url
@_token
@_ca
@_keys(required=False)
@_scope
def push(
    file: Path,
    url: str,
    token_file: Path | None,
    ca_file: Path | None,
    public_keys: tuple[Path, ...],
    scope: str,
) -> None:
    """Put a signed bundle onto a server, by HTTP PUT. With --public-key, verify it first."""
    archive = archives.read(file)
    packed = archive.packed()
    if public_keys:
        client.check(archive, packed, _read(public_keys), scope, file)
    target = client.push(url, archive, packed, token=token_file, ca=ca_file)
    out.line(f"{target}: {archive.name}, revision {archive.revision}")


@command.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@component_options.listen
@component_options.tls_cert_file
@component_options.tls_private_key_file
@click.option("--push-token-file", type=FILE, help="The token by which new bundles are taken.")
@click.option("--token-file", type=FILE, help="The token that OPAs need.  [default: none]")
@_keys(required=False)
@_scope
@component_options.log_level
def serve(
    folder: Path,
    listen: tuple[str, int],
    tls_cert_file: Path,
    tls_private_key_file: Path,
    push_token_file: Path | None,
    token_file: Path | None,
    public_keys: tuple[Path, ...],
    scope: str,
    log_level: str,
) -> None:
    """Serve the bundles in FOLDER, policies.tar.gz and data.tar.gz, and count what OPAs report.

    OPAs get a new bundle at once, as they wait for it. It is taken by `fairlead bundle push`, if it
    was signed later than the present one and, with --public-key, by this key.
    """
    # Imported here, as no other command needs a server.
    from fairlead.distribution import server

    host, port = listen
    server.run(
        server.Options(
            folder=folder,
            host=host,
            port=port,
            certificate=tls_cert_file,
            private_key=tls_private_key_file,
            keys=_read(public_keys),
            scope=scope,
            push_token=push_token_file,
            follow_token=token_file,
            log_level=component_options.server_level(log_level),
        )
    )


@command.command()
@_url
@_keys(required=True)
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
    help="The file on OPA's machine with the server's token.",
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
    metavar="TIME",
    help="Decide by no bundle that was signed before, such as 2026-11-24T09:00Z.",
)
@click.option(
    "--label",
    "labels",
    metavar="NAME=VALUE",
    multiple=True,
    help="What the OPA calls itself in reports, such as cluster=paris; repeatable.",
)
def config(
    url: str,
    public_keys: tuple[Path, ...],
    scope: str,
    names: tuple[str, ...],
    ca_file: Path | None,
    token_file: Path | None,
    persist: Path,
    signed_since: str | None,
    labels: tuple[str, ...],
) -> None:
    """Print the configuration of an OPA that follows a server, for `opa run --config-file`."""
    following = Following(
        url=url,
        names=names,
        keys=_read(public_keys),
        scope=scope,
        ca=ca_file,
        token=token_file,
        persisted=persist,
        since=_instant(signed_since),
        labels=dict(map(_label, labels)),
    )
    out.line(yaml.safe_dump(configuration.document(following), sort_keys=False).rstrip())


@command.command()
@_url
@_token
@_ca
@options.output
def status(url: str, token_file: Path | None, ca_file: Path | None, output: str) -> int:
    """Show how many OPAs have which revision. Exits with 1 while one lacks the served revision."""
    summary = client.status(url, token=token_file, ca=ca_file)
    rows = [
        {**row, "signed": _time(row["signed"]), "expires": _time(row["expires"])}
        for row in summary["bundles"]
    ]
    out.emit(summary, output, out.rows(None, _SEEN, rows))
    behind = [
        row for row in summary["bundles"] if row["onRevision"] < row["opas"] or row["failing"]
    ]
    if output == "table":
        for opa in summary["opas"]:
            for name, bundle in opa["bundles"].items():
                if bundle["error"]:
                    out.note(f"{_called(opa)}: {name}: {bundle['error']}")
    return 1 if behind else 0


def _called(opa: dict[str, Any]) -> str:
    """An OPA's labels, without those that each has; else its id."""
    own = {key: value for key, value in opa["labels"].items() if key not in ("id", "version")}
    return ", ".join(f"{key}={value}" for key, value in own.items()) or str(opa["id"])


def _write(path: Path, content: bytes) -> None:
    try:
        atomic_files.write_private(path, content)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written ({error.strerror}): name another file"
        ) from error


def _read(public_keys: tuple[Path, ...]) -> list[PublicKey]:
    return [signatures.public_key(path) for path in public_keys]


def _duration(text: str | None) -> timedelta | None:
    try:
        return durations.parse(text) if text else None
    except ValueError as error:
        raise UsageError(f"--expires-in: {error}") from error


def _instant(text: str | None) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise UsageError(
            f"--signed-since: {text!r} is no time such as 2026-11-24T09:00Z"
        ) from error
    return instant.replace(tzinfo=instant.tzinfo or UTC) if instant else None


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value) or name == "bundles_signed_since":
        raise UsageError(f"--label: {text!r} is not a label such as cluster=paris")
    return name, value


def _time(seconds: int | None) -> str | None:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else None
