"""Options that several commands share, so that each is spelt and explained once."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.output import FORMATS
from fairlead.sidecars import SIDECARS

output = click.option(
    "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Form of the result."
)
name = click.option("--name", default="fairlead", show_default=True, help="Name of the cluster.")
sidecar = click.option(
    "--sidecar",
    type=click.Choice(list(SIDECARS)),
    help="What keeps OPA current; by default what the cluster has: sync where it is embedded, else kube-mgmt.",
)
policies = click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of the policies, instead of the checkout's own.",
)
settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help="The settings file, instead of FAIRLEAD_SETTINGS or fairlead.yaml.",
)
