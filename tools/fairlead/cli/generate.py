"""`fairlead generate`: write the files that are made from policies' METADATA and cases."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import atomic_files
from fairlead.common.errors import UsageError
from fairlead.deployment import pod_sizes
from fairlead.policy import bundles, generated
from fairlead.verification import golden as golden_pairs
from fairlead.verification import matrix


@click.command()
@click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder of policies.  [default: those of the settings, or else the project's]",
)
@click.option(
    "--golden",
    is_flag=True,
    help="Instead write what each engine renders of the settings in testdata/golden.",
)
@options.settings
@options.output
def command(
    policies_folder: Path | None, golden: bool, settings_file: Path | None, output: str
) -> None:
    """Write README.md into the folder of each policy: its page, made from its METADATA and cases.

    Of the project's own policies, also the table of the intents, the bundle's manifest, the
    defaults of parameters, the list in docs/policies.md, the table in docs/engines.md and the
    shapes by which OPA's proxy counts values. A README.md that does not begin with "Made by" is
    left as it is. `fairlead test` fails if a file is out of date.
    """
    if golden:
        if policies_folder is not None or settings_file is not None:
            raise UsageError("--golden renders the project's policies: leave out the other options")
        _write_golden(output)
        return
    settings = options.load(settings_file)
    own = [Path(place) for place in settings.policies] or [bundles.folder()]
    folders = own if policies_folder is None else [policies_folder]
    texts = dict(generated.texts(folders, settings))
    if bundles.folder().resolve() in {folder.resolve() for folder in folders}:
        texts |= {**matrix.texts(), **pod_sizes.texts()}
    outdated = generated.outdated(texts)
    atomic_files.write_all(outdated)
    out.files(list(outdated), output)


def _write_golden(output: str) -> None:
    """Write the golden pairs again, and remove the files that no engine renders any more."""
    texts = golden_pairs.texts()
    outdated = generated.outdated(texts)
    atomic_files.write_all(outdated)
    superfluous = golden_pairs.superfluous(texts)
    for path in superfluous:
        path.unlink()
    out.files([*outdated, *superfluous], output)
