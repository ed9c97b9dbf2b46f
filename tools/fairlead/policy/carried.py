"""What the modules in a cluster carry: at the end of an intent's module stands, as a comment, what
its intent.yaml says. So a revision covers it, and whoever reads the policies of a cluster, or a
revision of the history, has it.
"""

from __future__ import annotations

import re

from fairlead.policy import intents, metadata, old_metadata
from fairlead.policy.intents import Intent
from fairlead.policy.revision import PACKAGE

_MARK = "# What intent.yaml says:\n"
_CARRIED = re.compile(rf"^{_MARK}((?:#.*\n)*)", re.MULTILINE)


def of_module(text: str, source: str) -> Intent | None:
    """The intent that a module in a cluster carries; None for other modules. Raises InputError."""
    described, package = metadata.of(text, source), PACKAGE.search(text)
    carried = _CARRIED.search(text)
    if carried is None or package is None:
        return old_metadata.intent(described, source) if described else None
    lines = text.count("\n", 0, carried.start(1))  # so that those of the document are the module's
    facts = "\n" * lines + metadata.uncommented(carried[1])
    return intents.described_by(package[1].split(".")[-1], described, facts, source)


def carrying(text: str, facts: str) -> str:
    """A module with what intent.yaml says at its end."""
    return f"{text.rstrip()}\n\n{_MARK}{metadata.commented(facts)}"


def without_facts(text: str) -> str:
    """A module without what intent.yaml says, as its file has it."""
    return _CARRIED.sub("", text).rstrip() + "\n"
