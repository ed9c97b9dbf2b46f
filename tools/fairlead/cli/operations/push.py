"""`fairlead push`: test the policies, push them into a running cluster, and wait until every OPA
serves them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.operations import push
from fairlead.policy import fairlead_yaml, policy_files

_LOOK = 0.3
"""Seconds between two checks of the files with --watch."""


@click.command()
@options.cluster
@options.settings
@options.policies
@click.option(
    "--restart", is_flag=True, help="Restart each OPA and its sidecar afterwards, one by one."
)
@click.option(
    "--watch",
    is_flag=True,
    help="Push again whenever a policy or the settings file is saved, until Ctrl-C; for "
    "development.",
)
@options.message
@options.output
def command(
    target: registry.Target,
    settings_file: Path | None,
    policies_folder: Path | None,
    restart: bool,
    watch: bool,
    message: str | None,
    output: str,
) -> None:
    """Check and test the policies, push them, and wait until every OPA serves exactly this
    revision.

    If a policy does not compile or fails its tests, nothing is changed. If an OPA rejects the new
    revision, the old one comes back.
    """
    if watch and output != "table":
        raise UsageError("--watch prints for people only: leave out -o")
    cluster = registry.find(target)

    def push_now() -> None:
        policies = options.load_policies(settings_file, policies_folder)
        with out.progress() as progress:
            result = push.push(
                cluster, policies, message=message, restart=restart, progress=progress
            )
        show(result, output)

    if not watch:
        push_now()
        return

    def settings_now() -> Path | None:
        return fairlead_yaml.find(settings_file)

    folders = policy_files.paths(fairlead_yaml.load(settings_file), policies_folder)

    def folders_now() -> list[Path]:
        nonlocal folders
        with suppress(FairleadError):  # the push says what is wrong with the settings
            folders = policy_files.paths(fairlead_yaml.load(settings_file), policies_folder)
        return folders

    file = settings_now() or Path.cwd() / fairlead_yaml.FILE
    watched = [paths.shown(path) for path in (*folders, file)]
    out.note(f"watching {', '.join(watched[:-1])} and {watched[-1]}, until Ctrl-C")
    for _ in _until_stopped(push.changes(folders_now, settings_now, lambda: time.sleep(_LOOK))):
        try:
            push_now()
        except FairleadError as error:
            out.error(str(error))


def _until_stopped(changes: Iterator[None]) -> Iterator[None]:
    """The changes until Ctrl-C. It ends the watch between two pushes, and is an error in a push."""
    while True:
        try:
            next(changes)
        except KeyboardInterrupt:
            out.note("stopped watching")
            return
        yield


def show(result: dict[str, Any], output: str) -> None:
    """Print which OPA serves the revision, and the warnings."""
    table = out.rows(f"revision {result['revision']}", ("url", "revision"), result["opa"])
    line = f"revision {result['revision']} in force"
    out.emit(result, output, table if result["opa"] else lambda console: console.print(line))
    if result["entry"] is None:
        out.note("policies and settings were in force already: the history has no new entry")
    for warning in result["warnings"]:
        out.warning(warning)
