"""The code of intents in Python: in the folders of policies, and in the policies' ConfigMap.

A deployment of the engine `python` has it there beside the Rego, which carries what the code is
asked about. So one revision has all of it, and a push or a rollback brings all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairlead.common import yaml_files
from fairlead.common.errors import UsageError
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent

_FILE = Path("engines", "python.py")


class MissingError(UsageError):
    """An intent is not written in Python."""


def path_of(intent: Intent) -> Path:
    """Where the intent is, or would be, written in Python."""
    return Path(intent.source).parent / _FILE


def key_of(intent: Intent) -> str:
    """The key of its code in the ConfigMap."""
    return ".".join((intent.package, *_FILE.parts))


def missing(instance: Instance) -> MissingError:
    """The error for an instance of an intent that is not written in Python."""
    return MissingError(
        f"the intent {instance.intent.name} is not written in Python: write "
        f"{path_of(instance.intent)}, or switch it off by `intents: {{{instance.name}: false}}` in "
        "fairlead.yaml"
    )


def read(active: Iterable[Instance]) -> dict[str, str]:
    """The code of the instances in force, key -> text. Raises MissingError, InputError."""
    code = {}
    for instance in active:
        path = path_of(instance.intent)
        if not path.is_file():
            raise missing(instance)
        code[key_of(instance.intent)] = yaml_files.read_text(path)
    return code
