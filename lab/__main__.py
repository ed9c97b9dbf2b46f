"""`python -m lab`: the commands of the laboratory, which need a checkout."""

from __future__ import annotations

import click

from fairlead.__main__ import CommandGroup, main

COMMANDS = {
    "test": "Check, lint and test the checkout: what `fairlead test` does there.",
    "fuzz": "Send malformed and hostile requests to OPA, and check its answers.",
    "chaos": "Break every component under load, and check that no pod is misplaced.",
    "verify": "Run the conformance cases on each engine, Gatekeeper and Kyverno included.",
    "e2e": "Run the integration tests on a cluster of any kind.",
    "docker-e2e": "Run the end-to-end tests in a container.",
    "bench": "Measure Fairlead and its peers side by side.",
    "scale": "Place 20,000 pods in one cluster, and measure that.",
    "generate": "Write tables of the docs, and what each engine renders of sample settings.",
}


@click.group(
    cls=CommandGroup,
    commands={"lab.commands": COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
def cli() -> None:
    """Test and measure Fairlead in its checkout.

    Exit code: 0 on success, 1 if a check failed, 2 on wrong usage.
    """


if __name__ == "__main__":
    main(cli)
