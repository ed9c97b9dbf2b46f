"""Compares the decisions about workloads with those after a change of clusters, by `opa eval`, for
`fairlead what-if`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.admission import batch
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.placement import decisions, manifest_kinds, questions
from fairlead.placement.placements import Placement
from fairlead.placement.questions import Question

# All decisions on the same data share one `with`, so that equal ones are made once.
_MODULE = f"""
package fairlead_what_if

import data.lib.what_if
{questions.RULES}
problems := what_if.problems(data.fairlead_changes)

answers := [{{"now": now, "then": answers_then[number], "differ": differing}} |
	count(problems) == 0
	world := what_if.world(data.fairlead_changes)
	answers_now := decisions(data.fairlead_questions)
	answers_then := decisions(data.fairlead_questions) with data.placement as world
	some number, now in answers_now
	differing := [true | what_if.differ(now.answer[0], answers_then[number].answer[0])]
]
"""
_DEAREST = 1_000_000_000
"""As policies have it."""


@dataclass(frozen=True)
class Changes:
    """What changes in the data: certifications that clusters lose, and prices by resource, both by
    the names of the clusters.
    """

    without: Mapping[str, Sequence[str]]
    prices: Mapping[str, Mapping[str, float]]

    @staticmethod
    def parse(
        clusters: Sequence[str], certifications: Sequence[str], prices: Sequence[str]
    ) -> Changes:
        """Each of `clusters` loses all `certifications`. A price is written
        `CLUSTER[/RESOURCE]=NUMBER`; without a resource, it is that of cpu. Raises UsageError.
        """
        if bool(clusters) != bool(certifications):
            raise UsageError(
                "--cluster and --without belong together: "
                "--cluster NAME --without CERTIFICATION, such as pci"
            )
        if not (clusters or prices):
            raise UsageError(
                "nothing changes: give --cluster NAME --without CERTIFICATION, or "
                "--price CLUSTER[/RESOURCE]=NUMBER"
            )
        changed: dict[str, dict[str, float]] = {}
        for text in prices:
            cluster, resource, price = _price(text)
            if resource in changed.setdefault(cluster, {}):
                raise UsageError(f"--price {text}: {cluster} has two prices of {resource}")
            changed[cluster][resource] = price
        return Changes({name: list(certifications) for name in clusters}, changed)


@dataclass(frozen=True)
class Comparison:
    """The decisions about one workload: as it is now, and after the changes."""

    now: Placement
    then: Placement
    differs: bool

    @property
    def changed(self) -> bool:
        """Whether the clusters, the errors or the cost change."""
        return self.differs or self.now.cost != self.then.cost

    @property
    def costs(self) -> tuple[float | None, float | None] | None:
        """The cost of an hour, now and then; None if neither is known."""
        costs = (self.now.cost, self.then.cost)
        return None if costs == (None, None) else costs


def compare(
    paths: Sequence[Path],
    data_sources: Sequence[str],
    changes: Changes,
    *,
    folder: Path | None = None,
    progress: Progress,
) -> list[Comparison]:
    """The decisions on all workloads in files and folders, before and after the changes. For the
    arguments and errors, see decisions.read and decisions.decide; raises UsageError also for
    changes of what is not there.
    """
    inputs = decisions.read(paths, data_sources, progress=progress)
    progress.update("policies", "deciding")
    modules = decisions.modules(folder)
    data = {
        **inputs.data,
        "fairlead_changes": {"without": changes.without, "prices": changes.prices},
    }

    def compared(part: Sequence[Question]) -> list[Comparison]:
        answer = cli.evaluate(
            "data.fairlead_what_if",
            modules={**modules, "fairlead_what_if.rego": _MODULE},
            data={**data, "fairlead_questions": [question.data for question in part]},
            progress=progress,
        )
        if answer["problems"]:
            raise UsageError("; ".join(answer["problems"]))
        pairs = answer["answers"]
        now = decisions.read_answers(part, [pair["now"] for pair in pairs], inputs.documents)
        then = decisions.read_answers(part, [pair["then"] for pair in pairs], inputs.documents)
        return [
            Comparison(before, after, bool(pair["differ"]))
            for before, after, pair in zip(now, then, pairs, strict=True)
        ]

    asked = questions.about_workloads(manifest_kinds.sort(inputs.documents), running={})
    comparisons = batch.in_batches(asked, compared, progress=progress, name="policies")
    progress.finish("policies", f"decided {len(asked)} workloads twice")
    return comparisons


def _price(text: str) -> tuple[str, str, float]:
    prefix, separator, number = text.rpartition("=")
    cluster, _, resource = prefix.partition("/")
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if not (separator and cluster) or not 0 <= price <= _DEAREST:
        raise UsageError(
            f"--price {text}: write CLUSTER=NUMBER or CLUSTER/RESOURCE=NUMBER, the number from 0 "
            f"to {_DEAREST}"
        )
    return cluster, resource or "cpu", price
