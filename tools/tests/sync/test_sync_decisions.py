"""The sidecar takes OPA's uploads in bounded memory, and writes a bounded log."""

from __future__ import annotations

import gzip
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from fairlead.sync import decision_batches
from fairlead.sync.decision_uploads import BUDGETS, Decisions
from fairlead.sync.metrics import Metrics

MIB = 1024 * 1024
ALLOWED = {"response": {"uid": "1", "allowed": True}}
REFUSED = {
    "response": {"uid": "1", "allowed": False, "auditAnnotations": {"node-pool": "refused: a"}}
}
MALFORMED = {"response": {"uid": "", "allowed": False, "status": {"message": "no review"}}}


def batch(*entries: str | dict[str, Any]) -> bytes:
    """Packs a value as OPA does; text is used as JSON."""
    texts = [
        entry if isinstance(entry, str) else json.dumps(entry, separators=(",", ":"))
        for entry in entries
    ]
    return gzip.compress(f"[{','.join(texts)}]".encode())


def entry(id_: str, result: Any = ALLOWED, **others: Any) -> dict[str, Any]:
    return {"decision_id": id_, "result": result, **others}


def ids(packed: bytes) -> list[str | None]:
    return [
        decision.entry["decision_id"] if decision.entry else None
        for decision in decision_batches.read(packed)
    ]


class Log:
    """Decisions with a clock that the test controls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.metrics = Metrics()
        self.decisions = Decisions(self.metrics, self.lines.append, lambda: self.now)

    def unwritten(self, kind: str) -> float:
        return self.metrics.unwritten.labels(kind)._value.get()  # type: ignore[no-any-return]


@pytest.fixture
def log() -> Log:
    return Log()


TAKES = """
import os, sys
from lab.fuzz import limits
from fairlead.sync.decision_uploads import Decisions
from fairlead.sync.metrics import Metrics

def most():
    return limits.peak(os.getpid())

decisions = Decisions(Metrics(), sys.stdout.write)
batch = sys.stdin.buffer.read()
before = most()
decisions.take(batch)
sys.stderr.write(str(most() - before))
"""


@pytest.mark.parametrize(
    "large",
    [
        '{"input":[' + "[]," * MIB + "[]]}",
        '{"input":[' + '{"a":1},' * (MIB // 4) + "{}]}",
        '{"input":' + "[" * MIB + "]" * MIB + "}",
        '{"input":[' + "1," * MIB + "1]}",
        '{"input":{' + ",".join(f'"{number}":{{}}' for number in range(MIB // 4)) + "}}",
        '{"input":"' + "x" * 3 * MIB + '"}',
        '{"input":"' + '\\"' * MIB + '\\\\"}',
        '{"input":"' + "}]\\u20ac€\U0001f4a9" * (MIB // 8) + '"}',
    ],
    ids=["lists", "objects", "depth", "numbers", "keys", "text", "escapes", "unicode"],
)
def test_a_batch_is_read_in_bounded_memory(large: str) -> None:
    """3,116 bytes of gzip once took 500 MiB in the sidecar; its limit is half of that."""
    packed = batch(entry("1"), *[large] * 4, entry("2", REFUSED))
    done = subprocess.run(
        [sys.executable, "-c", TAKES], input=packed, capture_output=True, check=True
    )
    assert int(done.stderr.split()[-1]) < 32 * MIB
    assert [json.loads(line)["decision_id"] for line in done.stdout.splitlines()] == ["1", "2"]
    assert b"4 unread" in done.stderr


def test_no_more_is_unpacked_than_opa_may_have_packed(log: Log) -> None:
    """Such a batch is not an error, because OPA would send it again for ever."""
    blanks = " " * (decision_batches.UNPACKED // 2)
    assert ids(batch(entry("1"), blanks + json.dumps(entry("2")) + blanks, entry("3"))) == [
        "1",
        "2",
        None,
    ]
    assert ids(
        batch(entry("1"), '{"a":"' + "x" * decision_batches.UNPACKED + '"}', entry("2"))
    ) == [
        "1",
        None,
    ]


@pytest.mark.parametrize(
    "odd",
    [
        '{"a":' + "9" * 5000 + "}",
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
        '{"a":"' + "x" * 70_000 + '"}',
    ],
)
def test_what_cannot_be_read_is_no_reason_to_lose_what_can(log: Log, odd: str) -> None:
    """OPA's JSON may have numbers of any length and any depth, and OPA sends a rejected batch again
    for ever.
    """
    log.decisions.take(batch(odd, entry("1"), odd, odd, entry("2"), odd))
    assert [json.loads(line)["decision_id"] for line in log.lines] == ["1", "2"]
    assert log.unwritten("unread") == 4


def test_the_longest_decision_is_still_read() -> None:
    frame = len('{"decision_id":"1","a":""}')
    longest = json.dumps(
        {"decision_id": "1", "a": "x" * (decision_batches.LONGEST - frame)}, separators=(",", ":")
    )
    assert len(longest) == decision_batches.LONGEST
    assert ids(batch(longest, longest)) == ["1", "1"]
    assert ids(batch(longest.replace("xx", "xxx"))) == [None]


@pytest.mark.parametrize(
    "text",
    ["", "[", "]", "{}", "[{}", "[{},]", "[,{}]", "[{} {}]", "[{}]]", "[1]", '["{}"]', "[{]}"],
)
def test_what_is_no_array_of_objects_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a JSON array"):
        list(decision_batches.read(gzip.compress(text.encode())))


def test_blanks_are_none_of_our_business() -> None:
    assert list(decision_batches.read(gzip.compress(b" [ ] "))) == []
    assert len(list(decision_batches.read(gzip.compress(b'\n[ {} ,\t{"a": "]"} ]\n')))) == 2


def test_a_line_is_one_in_every_encoding(log: Log) -> None:
    log.decisions.take(
        gzip.compress('[{"decision_id":\n"1","a":"é\U0001f4a9"},{"b":1e400}]'.encode())
    )
    assert log.lines == ['{"decision_id":"1","a":"\\u00e9\\ud83d\\udca9"}\n', '{"b":1e400}\n']


def test_a_flood_of_reviews_that_say_nothing_hides_no_refusal(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    garbage = batch(
        *[entry(str(number), MALFORMED, input={"a": "x" * 1000}) for number in range(500)]
    )
    errors = batch(
        *[entry(str(number), None, error={"message": "x" * 1000}) for number in range(500)]
    )
    for second in range(60):
        log.now = float(second)
        log.decisions.take(garbage)
        log.decisions.take(errors)
        log.decisions.take(batch(entry(f"refused-{second}", REFUSED), entry(f"allowed-{second}")))
    shown = [json.loads(line)["decision_id"] for line in log.lines]
    assert [uid for uid in shown if uid.startswith("refused")] == [
        f"refused-{second}" for second in range(60)
    ]
    assert [uid for uid in shown if uid.startswith("allowed")] == [
        f"allowed-{second}" for second in range(60)
    ]
    rate, most = BUDGETS["malformed"]
    assert sum(map(len, log.lines)) < 2 * (most + 60 * rate) + 60 * 1000
    lost = log.unwritten("malformed") + log.unwritten("failed")
    assert lost == 2 * 60 * 500 - (len(shown) - 120)
    # all of them are counted
    assert log.metrics.decisions.labels("", "denied")._value.get() == 60 * 500
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 6
    assert "left out of the log" in messages[0]
    assert "malformed" in messages[0]


def test_a_flood_of_refusals_is_bounded_and_more_is_written_after_a_rest(log: Log) -> None:
    refusals = batch(
        *[entry(str(number), REFUSED, input={"a": "x" * 2000}) for number in range(400)]
    )
    for _ in range(20):
        log.decisions.take(refusals)
    size = sum(map(len, log.lines))
    assert BUDGETS["refused"][1] - 3000 < size <= BUDGETS["refused"][1]
    log.decisions.take(batch(entry("allowed")))
    assert "allowed" in log.lines[-1]
    log.now += 1
    log.decisions.take(refusals)
    assert (
        BUDGETS["refused"][0] - 3000
        < sum(map(len, log.lines)) - size
        <= BUDGETS["refused"][0] + len(log.lines[-1])
    )
