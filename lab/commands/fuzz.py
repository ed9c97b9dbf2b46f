"""`python -m lab fuzz`: send malformed and hostile requests to a real OPA, and check its answers,
memory and time."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common.errors import FairleadError, UsageError
from lab import developers
from lab.fuzz import ENGINES

_KINDS = ("guard", "reviews", "engines", "load")


@click.command()
@click.argument(
    "kinds",
    nargs=-1,
    type=click.Choice(_KINDS),
    metavar="[guard|reviews|engines|load]...",
)
@click.option(
    "--examples",
    type=click.IntRange(1),
    help="Number of examples of each suite.  "
    "[default: 20,000 requests, 50,000 reviews, "
    "5,000 comparisons, 200 attacks]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Seed of the random examples.  [default: a new one each time]",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(ENGINES),
    help="An engine that `engines` compares; at least two.  [default: all three]",
)
@options.policies
@options.output
def command(
    kinds: tuple[str, ...],
    examples: int | None,
    seed: int | None,
    engines: tuple[str, ...],
    policies_folder: Path | None,
    output: str,
) -> None:
    """Fuzz OPAs that the command starts for itself, as a deployment would.

    There are four suites. `guard` sends requests to OPA's API, `reviews` malformed
    admission reviews.
    `engines` compares the answers of the policies in Rego with those in Python,
    and asks an API server about every fifth example, which decides by policies in CEL.
    `load` sends huge, deep, compressed and slow requests to an embedded cluster;
    its OPA and sidecar must stay within their memory and go on serving others.

    If an example fails, the smallest one is printed. Save it as a file in the suite's folder below
    testdata/fuzz, and each later run tries it first. What an API server decides differently is
    printed as a conformance case. Exit code: 0 if everything holds, 1 if not.
    """
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    developers.require("fuzzing", "hypothesis", "h2")
    if engines and kinds != ("engines",):
        raise UsageError(
            "--engine is for the suite `engines`: python -m lab fuzz engines --engine NAME"
        )
    results = []
    with out.progress() as progress:
        for kind in dict.fromkeys(kinds or _KINDS):
            module = importlib.import_module(f"lab.fuzz.{kind}")
            overrides: dict[str, Any] = {} if examples is None else {"examples": examples}
            if engines:
                overrides["engines"] = engines
            results.append(
                module.run(seed=seed, progress=progress, policies=policies_folder, **overrides)
            )
    out.emit(results, output, lambda console: _draw(results, console))
    broken = [f"{result['fuzz']}: {result['why']}" for result in results if result["why"]]
    if broken:
        raise FairleadError(f"{'; '.join(broken)}; `--seed {seed}` repeats it")


def _draw(results: list[dict[str, Any]], console: Console) -> None:
    for result in results:
        rotations = f", {result['rotations']} rotations" if "rotations" in result else ""
        console.print(
            f"{result['fuzz']}: seed {result['seed']}, {result['tried']} tried in "
            f"{result['seconds']} s{rotations}\n"
        )
        out.rows(None, ("count", "outcome"), result["outcomes"])(console)
        _draw_figures(result, console)
        if result["why"]:
            console.print(f"\nDoes not hold: {result['why']}")
        if result["example"]:
            console.print(_smallest(result), soft_wrap=True, markup=False, highlight=False)
        console.print()


def _smallest(result: dict[str, Any]) -> str:
    """The smallest failing example, in the form in which it stays: as a conformance case if it is
    one, and otherwise as a file that the suite tries first.
    """
    example = result["example"]
    if "expect" in example:
        text = yaml.safe_dump([example], sort_keys=False, allow_unicode=True)
        return f"The smallest example, as a conformance case:\n{text}"
    text = json.dumps(example, ensure_ascii=True)
    return f"The smallest example, for testdata/fuzz/{result['fuzz']}/NAME.json:\n{text}"


def _draw_figures(result: dict[str, Any], console: Console) -> None:
    """Show the memory and time that the suite `load` measured."""
    limits = result.get("limits", {})
    for name, size in result.get("memory", {}).items():
        limit = limits.get(name)
        enforcement = (
            "enforced"
            if limit and limit["enforced"]
            else "not enforced on this machine, only measured"
        )
        of = f" of {limit['bytes'] >> 20} MiB, {enforcement}" if limit else ""
        console.print(f"memory of {name}: {size >> 20} MiB at most{of}")
    if bystanders := result.get("bystanders"):
        console.print(
            f"logs: {result['log'] >> 10} KiB; bystanders, in ms (quiet: while nobody attacked):\n"
        )
        out.rows(None, ("bystander", "asked", "refused", "p50", "max", "quiet"), bystanders)(
            console
        )
