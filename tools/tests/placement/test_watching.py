"""Decisions that follow files: each test edits them where the watch would wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from told_warnings import Warnings

from fairlead.placement.changes import Change
from fairlead.placement.file_inputs import FileInputs
from fairlead.placement.watching import Decision, Watch

TITLE = "Deployment shop/web"
CLUSTER = {"jurisdiction": "eu", "location": "on-prem", "certifications": []}


class Edited(FileInputs):
    """Files that are edited by one step each time that the watch waits."""

    def __init__(self, files: Files, edits: Iterable[Callable[[], object]]) -> None:
        super().__init__([files.manifests], [str(files.data)])
        self._edits = iter(edits)

    def wait(self, seconds: float) -> None:
        next(self._edits)()


class Files:
    """An application, and data with two clusters that differ by their prices."""

    def __init__(self, folder: Path) -> None:
        self.manifests, self.data = folder / "app.json", folder / "data.yaml"
        self.app(6)
        self.prices(1, 2)

    def app(self, replicas: int, kind: str = "Deployment", **annotations: str) -> None:
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        self._write(
            self.manifests,
            {
                "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
                "kind": kind,
                "metadata": {
                    "name": "web",
                    "namespace": "shop",
                    "annotations": {"customer": "northwind", **annotations},
                },
                "spec": {
                    "parallelism" if kind == "Job" else "replicas": replicas,
                    "template": {"spec": {"containers": [container]}},
                },
            },
        )

    def prices(self, eu: float, us: float, **settings: float) -> None:
        clusters = {
            name: {**CLUSTER, "price": {"cpu": price, "memory": 0}}
            for name, price in (("eu", eu), ("us", us))
        }
        customers = {"northwind": {"jurisdictions": ["eu"], "certifications": []}}
        placement = {"clusters": clusters, "customers": customers, "settings": settings}
        self._write(self.data, {"placement": placement})

    @staticmethod
    def _write(file: Path, value: Any) -> None:
        new = file.with_suffix(".new")
        new.write_text(json.dumps(value))
        new.replace(file)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def moves(decision: Decision) -> list[tuple[str | None, str | None, int]]:
    assert {change.title for change in decision.changes} <= {TITLE}
    return [(change.source, change.target, change.replicas) for change in decision.changes]


def test_decisions_follow_data_and_manifests(files: Files) -> None:
    edits: list[Callable[[], object]] = [
        lambda: files.prices(1, 2),  # nothing new
        lambda: files.prices(3, 2),
        lambda: files.app(8),
        files.manifests.touch,
        lambda: files.prices(1, 2),
    ]
    warnings = Warnings()
    watch = Watch(Edited(files, edits), folder=None, progress=warnings)
    assert moves(watch.next()) == [(None, "eu", 6)]
    assert watch.next().changes == [Change(TITLE, "eu", "us", 6, 18.0, 12.0)]
    assert moves(watch.next()) == [(None, "us", 2)]
    assert watch.next().changes == [Change(TITLE, "us", "eu", 8, 16.0, 8.0)]
    assert warnings.texts == []


def test_a_job_stays_where_it_was_started(files: Files) -> None:
    """The decision follows the prices; what runs is not taken to be moved by it."""
    files.app(6, kind="Job")
    edits = [lambda: files.prices(3, 2), lambda: files.prices(1, 2), lambda: files.prices(3, 2)]
    watch = Watch(Edited(files, edits), folder=None, progress=Warnings())
    first = watch.next()
    title = "Job shop/web"
    assert (first.changes, first.notes) == ([Change(title, None, "eu", 6, None, 6.0)], [])
    stays = f"{title} stays in eu, as a Job is not moved (eu: it costs no less than the clusters "
    for notes in ([f"{stays}that are chosen)"], [], [f"{stays}that are chosen)"]):
        decision = watch.next()
        assert (decision.changes, decision.notes) == ([], notes)


def test_a_mistake_is_told_once_and_what_was_decided_stays(files: Files) -> None:
    edits: list[Callable[[], object]] = [
        lambda: files.data.write_text("placement: {"),
        lambda: files.data.write_text("placement: {"),
        lambda: files.data.unlink(),
        lambda: files.prices(1, 2),
        lambda: files.prices(3, 2),
    ]
    warnings = Warnings()
    watch = Watch(Edited(files, edits), folder=None, progress=warnings)
    assert moves(watch.next()) == [(None, "eu", 6)]
    assert moves(watch.next()) == [("eu", "us", 6)]
    invalid, missing = warnings.texts
    assert "is not valid YAML" in invalid
    assert "cannot be read" in missing


def test_a_warning_is_told_again_only_if_it_was_gone(files: Files) -> None:
    wish = {"min-cluster": "2"}
    edits: list[Callable[[], object]] = [
        *(lambda: files.prices(1, 2), lambda: files.app(6, **wish)),  # which say the same
        *(lambda: files.app(7), lambda: files.app(8, **wish)),
        lambda: files.prices(3, 2),
    ]
    files.app(6, **wish)
    warnings = Warnings()
    watch = Watch(Edited(files, edits), folder=None, progress=warnings)
    told = []
    for _ in range(4):
        watch.next()
        told.append(len(warnings.texts))
    assert told == [1, 1, 2, 2]


def test_a_move_has_to_save_more_than_the_threshold(files: Files) -> None:
    """The last decision says where the workload runs."""
    edits = [
        lambda: files.prices(1.05, 1, moveThreshold=0.1),
        lambda: files.prices(1.2, 1, moveThreshold=0.1),
    ]
    watch = Watch(Edited(files, edits), folder=None, progress=Warnings())
    assert moves(watch.next()) == [(None, "eu", 6)]
    assert moves(watch.next()) == [("eu", "us", 6)]


def test_what_failed_is_decided_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.placement.watching._AGAIN", 0.001)
    edits = [lambda: files.prices(3, 2), *[lambda: None] * 1000]
    watch = Watch(Edited(files, edits), folder=None, progress=Warnings())
    assert moves(watch.next()) == [(None, "eu", 6)]
    assert moves(watch.next()) == [("eu", "us", 6)]
    watch.failed()
    assert moves(watch.next()) == [("eu", "us", 6)]


def test_policies_are_followed(files: Files, tmp_path: Path) -> None:
    """One that OPA cannot read is told as soon as it is there."""
    policies = tmp_path / "policies"
    policies.mkdir()
    mine = policies / "mine.rego"
    warnings = Warnings()
    edits: list[Callable[[], object]] = [
        lambda: mine.write_text("package mine\n\nanswer := if"),
        lambda: mine.unlink() if warnings.texts else None,
        lambda: files.prices(3, 2),
    ]
    watch = Watch(Edited(files, edits), folder=policies, progress=warnings)
    assert moves(watch.next()) == [(None, "eu", 6)]
    assert moves(watch.next()) == [("eu", "us", 6)]
    assert len(warnings.texts) == 1
    assert "mine.rego" in warnings.texts[0]
