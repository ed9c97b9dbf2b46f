"""Word taken back to ConfigMaps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from fairlead.sync.apiserver import ApiServer, ApiServerError
from fairlead.sync.desired import STATUS, Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.status import StatusWriter, text

POLICIES = Source("policies", "fairlead")
OWNER = ("fairlead", "rules")
OK = '{"status":"ok"}'


class FakeApi:
    """Takes annotations, and tells of them as a watch would when `echo` is set."""

    def __init__(self, desired: Desired) -> None:
        self.desired = desired
        self.written: list[str] = []
        self.error: ApiServerError | None = None
        self.echo = True

    def annotate(self, namespace: str, name: str, version: str, annotations: Mapping[str, str]) -> None:
        if self.error:
            raise self.error
        self.written.append(annotations[STATUS])
        if self.echo:
            tell(self.desired, str(int(version) + 1), annotations[STATUS])


def tell(desired: Desired, version: str, annotation: str | None) -> None:
    metadata: dict[str, Any] = {"namespace": "fairlead", "name": "rules", "resourceVersion": version}
    metadata["annotations"] = {STATUS: annotation} if annotation is not None else None
    desired.apply(POLICIES, False, {"metadata": metadata, "data": {}})


@pytest.fixture
def desired() -> Desired:
    desired = Desired([POLICIES], namespace_labels=[], data_label=None)
    desired.replace(POLICIES, [])
    tell(desired, "1", None)
    return desired


@pytest.fixture
def api(desired: Desired) -> FakeApi:
    return FakeApi(desired)


@pytest.fixture
def writer(api: FakeApi, desired: Desired) -> StatusWriter:
    return StatusWriter(cast(ApiServer, api), desired, Metrics())


def test_the_annotation_has_kube_mgmts_form() -> None:
    one = {
        "code": "c",
        "message": "m",
        "errors": [{"code": "e", "message": "x", "location": {"file": "f", "row": 3, "col": 1}}],
    }
    assert text([]) == OK
    assert json.loads(text([one])) == {"status": "error", "error": one}
    assert json.loads(text([one, one])) == {"status": "error", "error": [one, one]}


def test_the_annotation_stays_small_whatever_opa_quotes() -> None:
    long = {"code": "c", "message": "m", "errors": [{"details": {"line": "x" * 1_000_000}}] * 50}
    assert len(text([long])) < 20_000


def test_a_status_is_written_once_and_not_again_when_it_is_right(writer: StatusWriter, api: FakeApi) -> None:
    for _ in range(3):
        writer.report({OWNER: []})
        writer.write()
    assert api.written == [OK]


def test_it_is_not_written_again_before_the_watch_brings_it_back(writer: StatusWriter, api: FakeApi) -> None:
    api.echo = False
    for _ in range(3):
        writer.report({OWNER: []})
        writer.write()
    assert api.written == [OK]


def test_a_new_status_is_written_at_once(writer: StatusWriter, api: FakeApi) -> None:
    writer.report({OWNER: []})
    writer.write()
    writer.report({OWNER: [{"code": "c", "message": "m"}]})
    writer.write()
    assert [json.loads(written)["status"] for written in api.written] == ["ok", "error"]


def test_an_annotation_that_someone_broke_is_put_right_but_never_in_a_fight(
    writer: StatusWriter, api: FakeApi, desired: Desired, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("fairlead.sync.status.time.monotonic", lambda: now)
    for version in range(10, 610, 10):
        now += 1
        writer.report({OWNER: []})
        writer.write()
        tell(desired, str(version), "broken")
    assert 5 <= len(api.written) <= 8, "every write waits twice as long as the one before"
    now += 60
    writer.report({OWNER: []})
    writer.write()
    known = desired.config_map(OWNER)
    assert known is not None
    assert known.status == OK


@pytest.mark.parametrize("code", [404, 409])
def test_a_config_map_that_changed_or_is_gone_is_left_to_the_watch(
    writer: StatusWriter, api: FakeApi, code: int
) -> None:
    api.error = ApiServerError("changed", code)
    writer.report({OWNER: []})
    writer.write()
    api.error = None
    writer.report({OWNER: []})
    writer.write()
    assert api.written == [OK]


def test_a_failure_is_told_and_tried_again(writer: StatusWriter, api: FakeApi) -> None:
    api.error = ApiServerError("no rights", 403)
    writer.report({OWNER: [], ("fairlead", "unknown"): []})
    with pytest.raises(ApiServerError, match="no rights"):
        writer.write()
    api.error = None
    writer.report({OWNER: []})
    writer.write()
    assert api.written == [OK]
