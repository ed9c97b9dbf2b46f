"""The options that `fairlead sync`, `keeper` and `serve` share, and their log."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from fairlead.deployment import component_flags as flags

FILE = click.Path(path_type=Path, dir_okay=False)

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}

settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help="The settings file.  [default: FAIRLEAD_SETTINGS, or fairlead.yaml of the working "
    "directory or else of the checkout]",
)
kubeconfig = click.option(
    flags.KUBECONFIG, type=FILE, help="The kubeconfig to use, instead of the pod's service account."
)
log_level = click.option(
    "--log-level",
    type=click.Choice(list(_LEVELS)),
    default="info",
    show_default=True,
    help="The least severe messages to log.",
)


def log(level: str) -> None:
    """Write plain lines to stderr, of this package only: in their debug logs, the libraries of
    clients show headers, which hold tokens.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("fairlead").setLevel(_LEVELS[level])
    logging.getLogger("urllib3").setLevel(logging.ERROR)
