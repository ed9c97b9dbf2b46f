"""Writes YAML that steers no terminal."""

from __future__ import annotations

from typing import Any

import yaml

from fairlead.common import texts


class _Dumper(yaml.SafeDumper):
    """Writes text with characters that are not printable in double quotes, where they can be
    escaped.
    """


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if texts.printable(text, keep="\n\t") == text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represented)


def written(*documents: Any, width: int | None = None) -> str:
    """The documents as YAML. PyYAML escapes control characters, but not those that turn the
    direction of what follows.
    """
    text: str = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width
    )
    return texts.printable(text, keep="\n\t")
