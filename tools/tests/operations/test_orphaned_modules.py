"""Modules that OPA serves although their source is gone."""

from __future__ import annotations

from pathlib import Path

from fairlead.clusters.base import OpaServer
from fairlead.operations import orphaned_modules, problems
from fairlead.operations.deployed_state import Served
from fairlead.operations.orphaned_modules import Orphan

LIBRARY = "fairlead/z-lib/zlib.rego"
USER = "fairlead/a-user/a.rego"
MAIN = "fairlead/fairlead-policies/main.rego"
MODULES = {
    MAIN: "package system\n\nmain := {}\n",
    "fairlead/fairlead-policies/0123456789ab.old.rego": "package r_0123456789ab.old\n",
    LIBRARY: "package extra.zlib\n\nbad(x) := x\n",
    USER: "package extra.user\n\nimport data.extra.zlib\n\nx := zlib.bad(1)\n",
    "fairlead/other/o.rego": "package extra.zlibrary\n\ny := data.extra.zlibs\n",
}
OPA = OpaServer("https://127.0.0.1:1", Path("ca"), pod="opa-0")


def orphans(*gone: str) -> list[Orphan]:
    """What an OPA with MODULES serves after these sources are gone."""
    state = Served(OPA, True, "r1", modules=MODULES)
    return list(orphaned_modules.of_opa(state, MODULES.keys() - set(gone)))


def test_modules_that_have_their_source_are_not_told() -> None:
    assert orphans() == []


def test_a_module_of_an_earlier_revision_is_left_to_the_sidecar() -> None:
    assert orphans("fairlead/fairlead-policies/0123456789ab.old.rego") == []


def test_a_library_without_a_source_is_told_with_what_uses_it() -> None:
    (orphan,) = orphans(LIBRARY)
    assert orphan == Orphan("opa-0", LIBRARY, (USER,))
    assert orphan.document() == {"opa": "opa-0", "module": LIBRARY, "usedBy": [USER]}
    (sentence,) = problems.of_orphans([*orphans(LIBRARY), Orphan("opa-1", LIBRARY, (USER,))])
    assert sentence == (
        f"{LIBRARY} was deleted, and is still in force in opa-0, opa-1, because {USER} uses it. "
        "An OPA that restarts loads none of these: create it again, or remove what uses it"
    )


def test_a_module_that_nothing_uses_is_told_alone() -> None:
    (sentence,) = problems.of_orphans(orphans(USER))
    assert sentence.startswith(
        f"{USER} was deleted, and is still in force in opa-0: `fairlead push --restart` restarts"
    )
