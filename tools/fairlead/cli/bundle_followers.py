"""`fairlead bundle serve`, `config` and `status`: the server of signed bundles, and the OPAs that
follow it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import yaml

from fairlead.cli import bundle_options as shared
from fairlead.cli import component_options, options
from fairlead.cli import output as out
from fairlead.cli.component_options import FILE
from fairlead.common import atomic_files, texts
from fairlead.common.errors import InputError, UsageError
from fairlead.distribution import archives, client, component, configuration, registry
from fairlead.distribution.archives import NAMES, POLICIES
from fairlead.distribution.configuration import PERSISTED, Following

_SEEN = ("name", "revision", "signed", "expires", "opas", "onRevision", "failing")


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@component_options.listen
@component_options.tls_cert_file
@component_options.tls_private_key_file
@click.option("--push-token-file", type=FILE, help="The token by which new bundles are taken.")
@click.option("--token-file", type=FILE, help="The token that OPAs need.  [default: none]")
@shared.keys(required=False)
@shared.scope
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
            keys=shared.public(public_keys),
            scope=scope,
            push_token=push_token_file,
            follow_token=token_file,
            log_level=component_options.server_level(log_level),
        )
    )


@click.command()
@shared.url
@shared.plain
@shared.keys(required=True)
@shared.scope
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
    help="What the OPA calls itself in reports, such as cluster=paris; repeatable.",
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
        keys=shared.public(public_keys),
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


@click.command()
@shared.url
@shared.token
@shared.ca
@options.output
def status(url: str, token_file: Path | None, ca_file: Path | None, output: str) -> int:
    """Show how many OPAs have which revision. Exits with 1 while one lacks the served revision, and
    if a bundle has less than a quarter of its time left.
    """
    if registry.is_registry(url):
        raise UsageError("--url: a registry takes no reports: ask the OPAs, or use another server")
    summary = client.status(url, token=token_file, ca=ca_file)
    rows = [
        {**row, "signed": shared.time(row["signed"]), "expires": shared.time(row["expires"])}
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
                    out.note(texts.printable(f"{_called(opa)}: {name}: {bundle['error']}"))
    ending = [row for row in summary["bundles"] if _ends(row["signed"], row["expires"])]
    for row in ending:
        out.warning(
            f"{row['name']} counts until {shared.time(row['expires'])}, and OPAs stop deciding "
            "then: sign the bundle and push it again"
        )
    return 1 if behind or ending else 0


def _ends(signed: int | None, expires: int | None) -> bool:
    """Whether a bundle has less than a quarter of its time left; both in seconds of Unix time."""
    return expires is not None and time.time() > expires - (expires - (signed or 0)) / 4


def _called(opa: dict[str, Any]) -> str:
    """An OPA's labels, without those that each has; else its id."""
    own = {key: value for key, value in opa["labels"].items() if key not in ("id", "version")}
    return ", ".join(f"{key}={value}" for key, value in own.items()) or str(opa["id"])


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
                f"--signed-since: {text!r} is no time such as 2026-11-24T09:00Z, and no file"
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
