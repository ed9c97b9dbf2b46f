"""What is missing in OPA, as operations; no OPA is asked."""

from __future__ import annotations

from fairlead.sync.desired import ConfigMap, Item, Labels, Snapshot
from fairlead.sync.plan import (
    RETRY,
    SINGLE,
    Memory,
    Put,
    PutNamespace,
    PutNamespaces,
    Remove,
    Served,
    operations,
    ours,
    problems,
)

A: Item = ("policy", "ns/map/a")
B: Item = ("policy", "ns/map/b")
DOCUMENT: Item = ("document", "ns/facts/d")
NO = {"code": "c", "message": "m"}


def snapshot(
    texts: dict[Item, str] | None = None,
    *,
    kept: frozenset[Item] = frozenset(),
    namespaces: dict[str, Labels] | None = None,
    complete: bool = True,
) -> Snapshot:
    return Snapshot(texts or {}, kept, namespaces if namespaces is not None else {}, complete, ())


def held(policies: dict[str, str] | None = None, namespaces: dict[str, Labels | None] | None = None) -> Served:
    return Served(policies or {}, {}, namespaces if namespaces is not None else {})


def test_an_empty_opa_gets_namespaces_then_documents_then_policies() -> None:
    desired = snapshot({A: "a", DOCUMENT: "1"}, namespaces={"n": {"agentpool": "p"}})
    assert operations(desired, Served(), Memory(), 0) == [
        PutNamespaces({"n": {"agentpool": "p"}}),
        Put(DOCUMENT, "1"),
        Put(A, "a"),
    ]


def test_namespaces_are_written_even_where_there_are_none() -> None:
    assert operations(snapshot(), Served(), Memory(), 0) == [PutNamespaces({})]


def test_an_opa_without_namespaces_gets_no_policy_before_them() -> None:
    desired = Snapshot({A: "a", DOCUMENT: "1"}, frozenset(), None, True, ())
    assert operations(desired, Served(), Memory(), 0) == [Put(DOCUMENT, "1")]
    assert operations(desired, held(), Memory(), 0) == [Put(DOCUMENT, "1"), Put(A, "a")]


def test_nothing_is_done_where_all_is_right() -> None:
    memory = Memory()
    memory.accept(Put(DOCUMENT, "1"), "print")
    served = Served({"ns/map/a": "a", "other": "x"}, {"ns/facts/d": "print"}, {"n": {}})
    assert operations(snapshot({A: "a", DOCUMENT: "1"}, namespaces={"n": {}}), served, memory, 0) == []


def test_a_document_that_someone_changed_is_put_again() -> None:
    memory = Memory()
    memory.accept(Put(DOCUMENT, "1"), "print")
    served = Served({}, {"ns/facts/d": "other"}, {})
    assert operations(snapshot({DOCUMENT: "1"}), served, memory, 0) == [Put(DOCUMENT, "1")]


def test_only_what_the_sidecar_owns_is_removed_and_only_when_all_is_known() -> None:
    memory = Memory(owned={A, DOCUMENT})
    served = held({"ns/map/a": "a", "from/a/file": "x"})
    assert operations(snapshot(complete=False), served, memory, 0) == []
    assert operations(snapshot(), served, memory, 0) == [Remove(A), Remove(DOCUMENT)]


def test_what_cannot_be_sent_is_neither_changed_nor_removed() -> None:
    memory = Memory(owned={A})
    assert operations(snapshot(kept=frozenset({A})), held({"ns/map/a": "old"}), memory, 0) == []


def test_single_namespaces_are_written_one_by_one_and_many_at_once() -> None:
    desired = snapshot(namespaces={"a": {"agentpool": "p"}, "b": {}, "d": {}})
    served = held(namespaces={"a": {}, "b": {}, "c": {}, "d": None})
    assert operations(desired, served, Memory(), 0) == [
        PutNamespace("a", {"agentpool": "p"}),
        PutNamespace("d", {}),
        PutNamespace("c", None),
    ]
    many: dict[str, Labels] = {f"n{number}": {} for number in range(SINGLE)}
    assert len(operations(snapshot(namespaces=many), held(), Memory(), 0)) == SINGLE
    many["one more"] = {}
    assert operations(snapshot(namespaces=many), held(), Memory(), 0) == [PutNamespaces(many)]


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
    assert operations(snapshot(kept=frozenset({A})), held(), memory, 0) == [Put(A, "old")]


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
    assert ours(held({"ns/map/a": "a", "file": "1"}), memory) == ours(held({"ns/map/a": "a", "file": "2"}), memory)
    assert ours(held({"ns/map/a": "a"}), memory) != ours(held(), memory)


def test_the_problems_of_a_config_map_are_known_once_each_key_is_settled() -> None:
    config_map = ConfigMap(("ns", "map"), "policies", {"a": "a", "b": "b"}, {"c": {"message": "bad"}}, "1", None)
    memory = Memory()
    assert problems(config_map, held({"ns/map/a": "a"}), memory) is None
    memory.reject(Put(B, "b"), NO, 0)
    assert problems(config_map, held({"ns/map/a": "a"}), memory) == [NO, {"message": "bad"}]
    assert problems(config_map, held({"ns/map/a": "a", "ns/map/b": "b"}), memory) == [{"message": "bad"}]
