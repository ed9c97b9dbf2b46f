"""Computes the revision of policies, and the fingerprint of a ConfigMap.

Standard library only: the sidecar uses it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

MAIN = "main.rego"
PACKAGE = re.compile(r"^package\s+([\w.]+)", re.MULTILINE)
"""Where a module names its package."""
STAGE = re.compile(r"\br_([0-9a-f]{12})\.")
"""How a staged module refers to a package of its own revision."""
STAGED_KEY = re.compile(r"[0-9a-f]{12}\.")
"""How the key of a staged module begins. It sorts before other keys, and kube-mgmt loads keys in
that order."""


def switches(key: str, text: str) -> bool:
    """Whether callers reach a revision by this module: it keeps its name, and uses modules that are
    staged.
    """
    return STAGED_KEY.match(key) is None and STAGE.search(text) is not None


def fingerprint(data: Mapping[str, str]) -> str:
    """12 hex digits that identify a ConfigMap's data: of the SHA-256 over its keys and texts."""
    return hashlib.sha256(json.dumps(sorted(data.items())).encode()).hexdigest()[:12]


def revision(modules: Mapping[str, str]) -> str:
    """The revision of modules (key -> text): the fingerprint of those in force.

    The modules that OPA lists give the same revision. Of staged modules (see
    fairlead.policy.staging), only those count that main.rego uses, and not leftovers of other
    revisions.
    """
    return fingerprint(plain(modules))


def plain(modules: Mapping[str, str]) -> dict[str, str]:
    """The modules in force as they were before they were staged (key -> text)."""
    stage = STAGE.search(modules.get(MAIN, ""))
    prefix = f"{stage[1]}." if stage else ""
    return {
        key.removeprefix(prefix): STAGE.sub("", text)
        for key, text in modules.items()
        if (prefix and key.startswith(prefix)) or not STAGED_KEY.match(key)
    }
