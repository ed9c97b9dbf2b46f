"""How many values a reviewed object may have, and in which lists and maps they are counted:
review_limits.yaml says it. (The memory of OPA's container is in fairlead.opa.containers.)

The cost of a review depends on the number of its values far more than on its bytes: for 100,000
empty entries of `env`, which have 1.3 MB, OPA needs 2.9 s and 130 MB; for one text of 3 MB, 13 MB.
So the lengths of all lists and maps of a pod are added up. OPA's plugin does so
(tools/plugin/reduction.go), because it reads each review anyway: an API server would convert each
object for it, which took a third of its time for a pod. The engine `python` counts by itself.

Fields that only a newer API server has are not counted; OPA's limit of bytes
(fairlead.opa.containers) still applies to them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import paths

_TEXT = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
SIZES: Mapping[str, Any] = yaml.load(_TEXT, yaml.CSafeLoader)
"""What review_limits.yaml says."""
TOO_LARGE = (
    f"it has more than {SIZES['mostValues']} entries in its lists and maps (env, args, labels, "
    f"tolerations and all others), or more than {SIZES['mostParts']} containers and volumes: "
    "Fairlead places no object of that size. Make it smaller, for example by envFrom or a mounted "
    "ConfigMap"
)
"""Why an object that changes is refused; policies/review/review.rego has the same words."""


def texts() -> Mapping[Path, str]:
    """The file by which OPA's plugin counts, and what it should hold (tools/plugin/shapes.go)."""
    document = {key: value for key, value in SIZES.items() if key != "shapes"}
    text = json.dumps(document, indent=1, sort_keys=True)
    return {paths.root() / "tools" / "plugin" / "shapes.json": f"{text}\n"}


def is_too_large(kind: str, value: Any) -> bool:
    """Whether an object of a kind, written `group/Kind`, is too large."""
    values, parts = size(kind, value)
    return bool(values > SIZES["mostValues"] or parts > SIZES["mostParts"])


def size(kind: str, value: Any) -> tuple[int, int]:
    """The entries of all known lists and maps of an object of a kind, written `group/Kind`, and its
    containers and volumes, as OPA's plugin counts them. Nothing is known of other kinds than those
    of review_limits.yaml.
    """
    group = SIZES["groups"].get(SIZES["kinds"].get(kind))
    if group is None:
        return 0, 0
    templates = (reduce(_field, path, value) for path in group["templates"])
    sizes = [_size(value, group["beside"]), *(_size(each, SIZES["template"]) for each in templates)]
    return sum(values for values, _ in sizes), sum(parts for _, parts in sizes)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _size(value: Any, shape: Any) -> tuple[int, int]:
    """The entries of all lists and maps of a value, and the containers and volumes."""
    if not isinstance(value, Mapping | list):
        return 0, 0
    sizes: list[tuple[int, int]] = []
    if shape == "all":
        inside = value if isinstance(value, list) else value.values()
        sizes = [_size(item, shape) for item in inside]
    elif isinstance(shape, Mapping) and isinstance(value, Mapping):
        sizes = [_size(value[name], shape[name]) for name in shape.keys() & value.keys()]
    elif isinstance(shape, list) and isinstance(value, list):
        sizes = [_size(item, shape[0]) for item in value]
    count = 0 if isinstance(shape, Mapping) and "" not in shape else len(value)
    parts = count if isinstance(shape, list) and "parts" in shape[1:] else 0
    return count + sum(item[0] for item in sizes), parts + sum(item[1] for item in sizes)


def changes(operation: Any, new: Any, old: Any) -> bool:
    """Whether a request changes an object in a way that policies judge: its spec, labels or
    annotations; finalizers and status of an existing object can always be changed.
    """
    return bool(operation != "UPDATE" or _judged(new) != _judged(old))


def _judged(value: Any) -> Any:
    metadata = part(part(value, ("metadata",)).get("metadata"), ("labels", "annotations"))
    return part(value, ("spec",)), metadata


def part(value: Any, fields: Collection[str]) -> dict[str, Any]:
    """These fields of an object, as far as it has them."""
    if not isinstance(value, Mapping):
        return {}
    return {name: value[name] for name in fields if name in value}
