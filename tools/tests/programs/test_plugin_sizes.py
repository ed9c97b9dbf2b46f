"""OPA's plugin counts the values of an object as review_limits.py does."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment import review_limits
from fairlead.programs.toolchain import golang, recipe

KINDS = ("/Pod", "apps/DaemonSet", "apps/Deployment", "batch/CronJob", "/Namespace", "/ConfigMap")


def some(draw: random.Random, shape: Any, depth: int = 0) -> Any:
    """A value of a shape; sometimes one of another type, or with fields that nobody knows."""
    if draw.random() < 0.1:
        return draw.choice([None, 7, "[,{:", [], {}, ["a", {"b": ["c"]}], {"a": {"b": 'x"y'}}])
    if isinstance(shape, dict):
        fields = draw.sample(sorted(shape), min(len(shape), 6))
        return {field: some(draw, shape.get(field), depth + 1) for field in [*fields, "unknown"]}
    if isinstance(shape, list):
        return [some(draw, shape[0], depth + 1) for _ in range(draw.randrange(4))]
    if shape is not None and depth < 20:
        return {f"f:{n}": some(draw, shape, depth + 1) for n in range(draw.randrange(3))}
    return draw.choice([["a", "b"], {"a": "b", "c": "\u00e4<"}, []])


def objects(draw: random.Random) -> Iterator[tuple[str, Any]]:
    for kind in KINDS * 60:
        group = review_limits.SIZES["groups"][review_limits.SIZES["kinds"].get(kind, "pods")]
        value = some(draw, group["beside"])
        for path in group["templates"]:
            at, template = value, some(draw, review_limits.SIZES["template"])
            for field in path:
                at = at.setdefault(field, {}) if isinstance(at, dict) else None
            if isinstance(at, dict) and isinstance(template, dict):
                at.update(template)
        yield kind, value


def test_the_plugin_counts_as_the_shapes_say(tmp_path: Path) -> None:
    drawn = list(objects(random.Random(7)))  # noqa: S311 - the same each time
    file = tmp_path / "objects"
    file.write_text("".join(f"{kind} {json.dumps(value)}\n" for kind, value in drawn))
    toolchain = golang.provide(recipe.load("plugin").go, Progress(), Event())
    done = subprocess.run(
        [toolchain.path, "test", "-trimpath", "-v", "-count=1", "-run=TestSizesOfTheFile", "."],
        cwd=paths.root() / "tools" / "plugin",
        env={**toolchain.environment(tmp_path), "FAIRLEAD_OBJECTS": str(file)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    counted = [(int(v), int(p)) for v, p in re.findall(r"^size (\d+) (\d+)$", done.stdout, re.M)]
    assert counted == [review_limits.size(kind, value) for kind, value in drawn], done.stderr
    assert max(counted) > (50, 0)
    assert max(parts for _, parts in counted) > 5


def test_the_words_of_the_refusal_are_those_of_the_rego() -> None:
    module = (paths.root() / "policies" / "review" / "review.rego").read_text()
    (literals,) = re.findall(r'too_large := concat\("", \[\n(.*?)\n\]\)', module, re.DOTALL)
    assert "".join(re.findall(r'"(.*)"', literals)) == review_limits.TOO_LARGE
