"""Computes the revision of policies, and the fingerprint of a ConfigMap. Standard library only: the
sidecar uses it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

MAIN = "main.rego"
STAGE = re.compile(r"\br_([0-9a-f]{12})\.")
"""How the text of a staged module names a package of its own revision."""
STAGED_KEY = re.compile(r"[0-9a-f]{12}\.")
"""How the ConfigMap key of a staged module begins: before all others, as kube-mgmt loads keys in
their order."""


def fingerprint(data: Mapping[str, str]) -> str:
    """What tells a ConfigMap's data from any other, to the letter: 12 hex digits of the SHA-256
    over keys and texts.
    """
    return hashlib.sha256(json.dumps(sorted(data.items())).encode()).hexdigest()[:12]


def revision(modules: Mapping[str, str]) -> str:
    """The revision of modules, key to text: as `fingerprint`.

    OPA's own list of what it serves gives the same for the same texts. Of staged modules (see
    fairlead.policy.staging) only those count that main.rego uses: what another revision left does
    not.
    """
    used = STAGE.search(modules.get(MAIN, ""))
    prefix = f"{used[1]}." if used else ""
    texts = {
        key.removeprefix(prefix): STAGE.sub("", text)
        for key, text in modules.items()
        if (prefix and key.startswith(prefix)) or not STAGED_KEY.match(key)
    }
    return fingerprint(texts)
