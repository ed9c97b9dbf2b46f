"""The operations that bring OPA to the desired state; without any OPA."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.sync.config_maps import ConfigMap, Item
from fairlead.sync.desired import Snapshot
from fairlead.sync.plans import (
    RETRY,
    Memory,
    Operation,
    Put,
    Remove,
    Replicate,
    Served,
    operations,
    ours,
    problems,
)
from fairlead.sync.stores import Store

A: Item = ("policy", "ns/map/a")
B: Item = ("policy", "ns/map/b")
C: Item = ("policy", "ns/map/c")
OTHER: Item = ("policy", "ns/other/a")
DOCUMENT: Item = ("document", "ns/facts/d")
NO = {"code": "c", "message": "m"}
ONE: Store = {("", "n"): "{}"}


def snapshot(
    texts: dict[Item, str] | None = None,
    *,
    broken: frozenset[Item] = frozenset(),
    stores: dict[str, Store | None] | None = None,
    unlisted: tuple[str, ...] = (),
) -> Snapshot:
    return Snapshot(
        texts or {}, broken, stores if stores is not None else {"namespaces": {}}, unlisted, ()
    )


def held(
    policies: dict[str, str] | None = None, stores: dict[str, Store | None] | None = None
) -> Served:
    return Served(policies or {}, {}, stores if stores is not None else {"namespaces": {}})


class Opa:
    """Carries out operations and records them."""

    def __init__(
        self, served: Served, accepts: Callable[[Put | Remove], bool] = lambda _: True
    ) -> None:
        self.served = served
        self.accepts = accepts
        self.done: list[Put | Remove] = []
        self.memory = Memory()

    def settle(self, desired: Snapshot) -> list[Put | Remove]:
        """All operations until nothing is left to do, in order."""
        self.done = []
        while todo := operations(desired, self.served, self.memory, 0):
            self.memory.owned |= {
                operation.item for operation in todo if isinstance(operation, Put)
            }
            for operation in todo:
                self.take(operation)
            assert len(self.done) < 100, "it goes on for ever"
        return self.done

    def take(self, operation: Operation) -> None:
        assert not isinstance(operation, Replicate)
        if not self.accepts(operation):
            self.memory.reject(operation, NO, 0)
            return
        self.done.append(operation)
        self.memory.accept(operation)
        if isinstance(operation, Put):
            self.served.policies[operation.item[1]] = operation.text
        else:
            self.served.policies.pop(operation.item[1])


def test_an_empty_opa_gets_trees_and_documents_before_policies() -> None:
    desired = snapshot({A: "a", DOCUMENT: "1"}, stores={"namespaces": ONE})
    assert operations(desired, Served(), Memory(), 0) == [
        Replicate("namespaces", ONE, None),
        Put(DOCUMENT, "1"),
    ]
    assert operations(snapshot({A: "a"}), held(), Memory(), 0) == [Put(A, "a")]


def test_a_tree_is_written_even_where_it_is_empty() -> None:
    assert operations(snapshot(), Served(), Memory(), 0) == [Replicate("namespaces", {}, None)]


def test_an_opa_that_lacks_a_tree_gets_no_policy_while_that_is_not_known() -> None:
    desired = snapshot({A: "a"}, stores={"namespaces": {}, "pods": None})
    assert operations(desired, held(), Memory(), 0) == []
    assert operations(desired, held(stores={"namespaces": {}, "pods": {}}), Memory(), 0) == [
        Put(A, "a")
    ]


def test_only_what_differs_of_trees_is_written_and_what_opa_does_not_take_is_left_out() -> None:
    desired = snapshot({A: "a"}, stores={"namespaces": ONE, "pods": {}})
    served = held(stores={"namespaces": {}, "pods": {}})
    assert operations(desired, served, Memory(), 0) == [Replicate("namespaces", ONE, {})]
    assert operations(desired, served, Memory(), 0, without={"namespaces"}) == [Put(A, "a")]


def test_a_new_revision_is_loaded_beside_the_old_one_before_anything_changes() -> None:
    old = {A: "main old", B: "old"}
    opa = Opa(held())
    opa.settle(snapshot(old))
    new: dict[Item, str] = {
        A: "main new",
        ("policy", "ns/map/z2"): "z2 needs z1",
        ("policy", "ns/map/z1"): "new",
    }
    assert opa.settle(snapshot(new)) == [
        Put(("policy", "ns/map/z1"), "new"),
        Put(("policy", "ns/map/z2"), "z2 needs z1"),
        Put(A, "main new"),
        Remove(B),
    ]


def test_new_policies_that_need_each_other_are_all_there_before_one_changes() -> None:
    opa = Opa(held())
    opa.settle(snapshot({A: "old"}))
    opa.accepts = lambda operation: operation.item != B or C[1] in opa.served.policies
    assert opa.settle(snapshot({A: "new", B: "needs c", C: "c"})) == [
        Put(C, "c"),
        Put(B, "needs c"),
        Put(A, "new"),
    ]


def test_the_largest_policy_is_loaded_last_and_removed_first() -> None:
    opa = Opa(held())
    texts = {A: "a large one", B: "b", C: "one"}
    assert opa.settle(snapshot(texts)) == [Put(item, texts[item]) for item in (B, C, A)]
    assert opa.settle(snapshot()) == [Remove(item) for item in (A, C, B)]


def test_what_opa_accepted_last_is_removed_first() -> None:
    opa = Opa(held())
    opa.accepts = lambda operation: operation.item != A or B[1] in opa.served.policies
    opa.settle(snapshot({A: "needs b", B: "b", C: "c"}))
    assert opa.settle(snapshot()) == [Remove(A), Remove(C), Remove(B)]
    restarted = Memory(owned={A, B})
    assert operations(snapshot(), held({A[1]: "a", B[1]: "b"}), restarted, 0) == [
        Remove(B),
        Remove(A),
    ]


def test_a_half_accepted_update_takes_nothing_away_from_the_old_one_until_it_is_whole() -> None:
    opa = Opa(held())
    opa.settle(snapshot({A: "a", B: "b", OTHER: "x"}))
    opa.accepts = lambda operation: not (isinstance(operation, Put) and operation.text == "bad")
    assert opa.settle(snapshot({A: "a2", C: "bad"})) == [Put(A, "a2"), Remove(OTHER)]
    assert opa.settle(snapshot({A: "a2", C: "good"})) == [Put(C, "good"), Remove(B)]


def test_what_cannot_be_sent_holds_back_removals_of_its_config_map_too() -> None:
    memory = Memory(owned={A, B, OTHER})
    served = held({"ns/map/a": "a", "ns/map/b": "b", "ns/other/a": "x"})
    assert operations(snapshot(broken=frozenset({A})), served, memory, 0) == [Remove(OTHER)]


class Conflict(Opa):
    """A fake OPA in which policies conflict if their texts begin in the same way."""

    def take(self, operation: Operation) -> None:
        assert not isinstance(operation, Replicate)
        if isinstance(operation, Put):
            if operation.text.endswith("bad"):
                self.memory.reject(
                    operation, {"code": "c", "message": f"{operation.item[1]}:1: bad"}, 0
                )
                return
            others = {
                id_: text for id_, text in self.served.policies.items() if id_ != operation.item[1]
            }
            same = [id_ for id_, text in others.items() if text[0] == operation.text[0]]
            if same:
                message = f"multiple default rules x found at {same[0]}:1, {operation.item[1]}:1"
                self.memory.reject(operation, {"code": "c", "message": message}, 0)
                return
        super().take(operation)


def test_a_renamed_policy_takes_its_own_place_first() -> None:
    opa = Conflict(held())
    opa.settle(snapshot({A: "one", B: "two"}))
    assert opa.settle(snapshot({C: "one better", B: "two"})) == [
        Put(A, "one better", stands_for=C),
        Remove(A),
        Put(C, "one better"),
    ]


def test_a_renamed_policy_that_is_bad_leaves_the_old_one_and_tells_what_is_wrong() -> None:
    opa = Conflict(held())
    opa.settle(snapshot({A: "one"}))
    desired = snapshot({C: "one new"})
    opa.served.policies["ns/elsewhere/x"] = "one of another"
    assert opa.settle(desired) == []
    assert opa.served.policies["ns/map/a"] == "one"
    message = opa.memory.rejected[C, "one new"].problem["message"]
    assert "ns/elsewhere/x" in message
    opa.memory.adopt(desired, opa.served)
    assert operations(desired, opa.served, opa.memory, 0) == [], "it is not tried again and again"


def test_nothing_is_done_where_all_is_right() -> None:
    memory = Memory()
    memory.accept(Put(DOCUMENT, "1"), "print")
    served = Served(
        {"ns/map/a": "a", "other": "x"}, {"ns/facts/d": "print"}, {"namespaces": dict(ONE)}
    )
    assert (
        operations(snapshot({A: "a", DOCUMENT: "1"}, stores={"namespaces": ONE}), served, memory, 0)
        == []
    )


def test_a_document_that_someone_changed_is_put_again() -> None:
    memory = Memory()
    memory.accept(Put(DOCUMENT, "1"), "print")
    served = Served({}, {"ns/facts/d": "other"}, {"namespaces": {}})
    assert operations(snapshot({DOCUMENT: "1"}), served, memory, 0) == [Put(DOCUMENT, "1")]


def test_only_what_the_sidecar_owns_is_removed_and_only_when_all_is_known() -> None:
    memory = Memory(owned={A, DOCUMENT})
    served = held({"ns/map/a": "a", "from/a/file": "x"})
    assert operations(snapshot(unlisted=("ConfigMaps",)), served, memory, 0) == []
    assert operations(snapshot(), served, memory, 0) == [Remove(A), Remove(DOCUMENT)]


def test_what_cannot_be_sent_is_neither_changed_nor_removed() -> None:
    memory = Memory(owned={A})
    assert operations(snapshot(broken=frozenset({A})), held({"ns/map/a": "old"}), memory, 0) == []


def test_what_opa_declined_waits_until_something_changes_or_long() -> None:
    desired, served, memory = snapshot({A: "a", B: "b"}), held(), Memory()
    memory.reject(Put(A, "a"), NO, 0)
    assert operations(desired, served, memory, 1) == [Put(B, "b")]
    assert Put(A, "a") in operations(desired, served, memory, RETRY[1])
    assert Put(A, "a2") in operations(snapshot({A: "a2"}), served, memory, 1)
    memory.accept(Put(B, "b"))
    assert Put(A, "a") in operations(desired, served, memory, 1)


def test_while_a_new_text_is_declined_the_old_one_is_put_back_when_opa_loses_it() -> None:
    desired, memory = snapshot({A: "new"}), Memory()
    memory.accept(Put(A, "old"))
    memory.reject(Put(A, "new"), NO, 0)
    assert operations(desired, held({"ns/map/a": "old"}), memory, 1) == []
    assert operations(desired, held(), memory, 1) == [Put(A, "old")]
    memory.reject(Put(A, "old"), NO, 1)
    assert operations(desired, held(), memory, 2) == []


def test_after_a_restart_of_opa_what_cannot_be_sent_is_put_back_as_it_was() -> None:
    memory = Memory()
    memory.accept(Put(A, "old"))
    memory.restarted()
    assert operations(snapshot(broken=frozenset({A})), held(), memory, 0) == [Put(A, "old")]


def test_what_opa_served_before_the_sidecar_came_counts_as_accepted() -> None:
    desired, memory = snapshot({A: "new"}), Memory()
    memory.adopt(desired, held({"ns/map/a": "old"}))
    memory.reject(Put(A, "new"), NO, 0)
    assert operations(desired, held(), memory, 1) == [Put(A, "old")]


def test_a_declined_removal_waits_too_and_is_forgotten_when_wanted_again() -> None:
    memory = Memory(owned={A})
    served = held({"ns/map/a": "a"})
    memory.reject(Remove(A), NO, 0)
    assert operations(snapshot(), served, memory, 1) == []
    memory.adopt(snapshot({A: "a"}), served)
    assert memory.rejected == {}


def test_of_what_opa_serves_only_the_sidecars_own_counts_as_changed_by_others() -> None:
    memory = Memory(owned={A})
    assert ours(held({"ns/map/a": "a", "file": "1"}), memory) == ours(
        held({"ns/map/a": "a", "file": "2"}), memory
    )
    assert ours(held({"ns/map/a": "a"}), memory) != ours(held(), memory)


def test_the_problems_of_a_config_map_are_known_once_each_key_is_settled() -> None:
    config_map = ConfigMap(
        ("ns", "map"), "policies", {"a": "a", "b": "b"}, {"c": {"message": "bad"}}, "of", "1", {}
    )
    memory = Memory()
    assert problems(config_map, held({"ns/map/a": "a"}), memory) is None
    memory.reject(Put(B, "b"), NO, 0)
    assert problems(config_map, held({"ns/map/a": "a"}), memory) == [NO, {"message": "bad"}]
    assert problems(config_map, held({"ns/map/a": "a", "ns/map/b": "b"}), memory) == [
        {"message": "bad"}
    ]


def test_a_policy_that_switches_to_a_new_revision_waits_for_all_of_it() -> None:
    new, old = (
        "package system\n\nimport data.r_bbbbbbbbbbbb.x",
        "package system\n\nimport data.r_aaaaaaaaaaaa.x",
    )
    staged: Item = ("policy", "ns/map/bbbbbbbbbbbb.x.rego")
    main: Item = ("policy", "ns/map/main.rego")
    texts = {staged: "package r_bbbbbbbbbbbb.x", main: new}
    opa = Opa(held({main[1]: old}), accepts=lambda operation: operation.item != staged)
    assert main not in [operation.item for operation in opa.settle(snapshot(texts))]
    assert opa.served.policies[main[1]] == old
    broken = ConfigMap(
        ("ns", "map"),
        "policies",
        {id_.rpartition("/")[2]: t for (_, id_), t in texts.items()},
        {},
        "",
        "",
        {},
    )
    assert problems(broken, opa.served, opa.memory) == [NO]
    opa = Opa(held({main[1]: old}))
    assert [operation.item for operation in opa.settle(snapshot(texts))] == [staged, main]


def test_all_policies_that_switch_to_a_new_revision_do_so_after_the_others() -> None:
    main: Item = ("policy", "ns/map/main.rego")
    placement: Item = ("policy", "ns/map/placement.rego")
    staged: Item = ("policy", "ns/map/bbbbbbbbbbbb.x.rego")
    old = {main[1]: "import data.r_aaaaaaaaaaaa.x", placement[1]: "import data.r_aaaaaaaaaaaa.y"}
    texts = {
        main: "import data.r_bbbbbbbbbbbb.x",
        placement: "import data.r_bbbbbbbbbbbb.y",
        staged: "package r_bbbbbbbbbbbb.x",
    }
    opa = Opa(held(old))
    assert [operation.item for operation in opa.settle(snapshot(texts))] == [
        staged,
        main,
        placement,
    ]
    refusing = Opa(held(old), accepts=lambda operation: operation.item != staged)
    assert refusing.settle(snapshot(texts)) == []


def test_it_waits_for_what_cannot_be_sent_too() -> None:
    main: Item = ("policy", "ns/map/main.rego")
    opa = Opa(held({main[1]: "old"}))
    new = "package system\n\nimport data.r_bbbbbbbbbbbb.x"
    assert (
        opa.settle(snapshot({main: new}, broken=frozenset({("policy", "ns/map/extra.rego")}))) == []
    )
