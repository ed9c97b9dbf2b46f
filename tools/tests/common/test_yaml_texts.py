"""YAML that steers no terminal, with the values as they are."""

from __future__ import annotations

import pytest
import yaml

from fairlead.common import texts, yaml_texts
from fairlead.deployment import manifests

HOSTILE = [
    "a\u202eb",
    "\x1b[31mred",
    "x\n::error::forged",
    "x\r\n\u2066y",
    "\x85\ufeff\u200b",
    "\U000e0001tag",
    "- plain \u202e: text",
    "\U0001f600 \u00e9",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_does_not_print_is_escaped_and_keeps_its_value(text: str) -> None:
    document = {"metadata": {"name": text, text: text}, "list": [text, {"a": [text]}]}
    for written in (yaml_texts.written(document, document), manifests.to_yaml([document] * 2)):
        assert texts.printable(written, keep="\n\t") == written
        assert list(yaml.safe_load_all(written)) == [document] * 2
