"""Says what a copy of a kubeconfig was copied from: messages name the file that people know.

This module imports no client library, because commands that contact no cluster do without one.
"""

from __future__ import annotations

from pathlib import Path

import yaml

COPIED_FROM = "fairlead.dev/copied-from"
"""The extension of a kubeconfig that is a copy: the file of each section, such as `users`."""


def origin(kubeconfig: Path, section: str) -> Path:
    """The file that people know: that which this section of a kubeconfig was copied from, and
    otherwise the kubeconfig itself.
    """
    try:
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        extensions = {each["name"]: each["extension"] for each in document["extensions"]}
        return Path(extensions[COPIED_FROM][section])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return kubeconfig
