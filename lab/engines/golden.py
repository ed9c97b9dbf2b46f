"""The golden pairs in testdata/golden: settings, and what each engine renders of them.

A folder holds `fairlead.yaml`, and for each engine that renders objects ENGINE.yaml, or
ENGINE.refused with the message if the engine cannot express the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from fairlead import engines
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def folder() -> Path:
    """The folder of the pairs."""
    return paths.root() / "testdata" / "golden"


def texts() -> Mapping[Path, str]:
    """The files of all pairs, and what they should hold. Raises InputError."""
    return {
        settings_file.with_name(name): text
        for settings_file in sorted(folder().glob(f"*/{fairlead_yaml.FILE}"))
        for name, text in _texts(fairlead_yaml.load(settings_file))
    }


def superfluous(expected: Mapping[Path, str]) -> list[Path]:
    """The files of the pairs that are not among the expected ones."""
    present = (path for path in folder().glob("*/*") if path.name != fairlead_yaml.FILE)
    return sorted(path for path in present if path not in expected)


def _texts(settings: Settings) -> Iterator[tuple[str, str]]:
    """The files of a pair, by name."""
    policies = PolicySet.load(settings)
    for name in engines.RENDERERS:
        try:
            yield f"{name}.yaml", manifests.to_yaml(engines.render(name, policies))
        except UsageError as error:
            yield f"{name}.refused", f"{error}\n"
