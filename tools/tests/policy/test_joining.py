"""The modules of a package are joined where that changes no meaning."""

from __future__ import annotations

import pytest

from fairlead.opa import cli
from fairlead.policy import joining

STAGE = "r_000000000000"
MAIN = f"""# METADATA
# title: Pools
package {STAGE}.pools

import data.{STAGE}.lib

deny contains "no" if lib.bad(allowed)
"""
LIB = f"""package {STAGE}.lib

bad(allowed) if not input.pool in allowed
"""
KEY, OTHER = "pools.pools.rego", "pools.allowed.rego"


def module(rules: str, imports: str = "") -> str:
    return f"package {STAGE}.pools\n\n{imports}\n{rules}"


def joined(other: str) -> dict[str, str]:
    return joining.join({KEY: MAIN, OTHER: other, "lib.lib.rego": LIB})


def test_rules_and_imports_of_all_are_in_one_module_which_decides_alike() -> None:
    other = module(
        'allowed := {"a"} & other.names\n', f"import data.{STAGE}.lib\nimport data.other\n"
    )
    modules = joined(other)
    assert modules.keys() == {KEY, "lib.lib.rego"}
    assert modules[KEY].startswith("# METADATA\n# title: Pools\npackage")
    assert modules[KEY].count("import ") == 2
    before = {KEY: MAIN, OTHER: other, "lib.lib.rego": LIB}
    for pool in ("a", "b"):
        answers = [
            cli.evaluate(
                f"data.{STAGE}.pools",
                modules=each,
                data={"other": {"names": ["a"]}},
                input={"pool": pool},
            )
            for each in (before, modules)
        ]
        assert answers[0] == answers[1]


def test_joining_again_changes_nothing() -> None:
    modules = joined(module('allowed := {"a"}\n'))
    assert joining.join(modules) == modules


@pytest.mark.parametrize(
    "other",
    [
        module('allowed := {lib} if lib := "a"\n'),  # a variable that the other one imports
        module("allowed := lib.all\n", "import data.other.lib\n"),  # another import of that name
        module('allowed := {"a"}\n\nimport data.other\n'),  # an import that stands elsewhere
        module('allowed := {"a"}\n', 'import data["other names"].x as x\n'),
        module('allowed := {$"{lib.name}"}\n'),  # a text with a name in it
    ],
)
def test_a_package_stays_as_it_is_where_a_name_would_get_another_meaning(other: str) -> None:
    assert joined(other).keys() == {KEY, OTHER, "lib.lib.rego"}


def test_words_in_texts_and_comments_are_no_names() -> None:
    assert OTHER not in joined(module('# lib\nallowed := {"lib", `lib`, input.lib}\n'))


def test_without_a_module_of_the_packages_name_it_stays_as_it_is() -> None:
    modules = {"pools.a.rego": MAIN, "pools.b.rego": module('allowed := {"a"}\n')}
    assert joining.join(modules) == modules
