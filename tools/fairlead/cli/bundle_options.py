"""The options that the commands of `fairlead bundle` share, and what they read and show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from fairlead.cli.component_options import FILE
from fairlead.common.errors import UsageError
from fairlead.distribution import registry, signatures
from fairlead.distribution.signatures import SCOPE, PublicKey

scope = click.option(
    "--scope",
    default=SCOPE,
    show_default=True,
    help="Whom the bundle is for; an OPA takes only bundles that are signed for its scope.",
)
file = click.argument("file", metavar="FILE", type=FILE)


def _checked(_: click.Context, __: click.Parameter, value: str) -> str:
    """The URL, if it is one. Raises UsageError."""
    if registry.is_registry(value):
        registry.Repository.parse(value)
        return value
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"--url: {value!r} is no URL such as https://policies.example.com")
    return value


url = click.option(
    "--url",
    required=True,
    callback=_checked,
    help="The server, such as https://policies.example.com, or a part of an OCI registry, such as "
    "oci://registry.example.com/fleet",
)
plain = click.option(
    "--plain-http", "plain", is_flag=True, help="The registry speaks HTTP without TLS."
)
token = click.option(
    "--token-file",
    type=FILE,
    help="A file with the token that the server asks for; of a registry, USER:PASSWORD.",
)
ca = click.option("--ca-file", type=FILE, help="The CA of the server, instead of the system's CAs.")


def keys(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option that names public keys; the command gets them as `public_keys`."""
    return click.option(
        "--public-key",
        "public_keys",
        type=FILE,
        multiple=True,
        required=required,
        help="A key that may sign; repeatable, so that one can replace another.",
    )


def public(public_keys: tuple[Path, ...]) -> list[PublicKey]:
    """The keys in these files. Raises InputError."""
    return [signatures.public_key(path) for path in public_keys]


def time(seconds: int | None) -> str | None:
    """A time (Unix time in seconds) as people read it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if seconds else None
