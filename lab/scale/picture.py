"""Draws bench/scale.json: memory, latency, and the pods over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.bench import pictures
from lab.bench.pictures import Picture

_WIDTH = 720
_MARKS = {"pods": "pods begin", "resync": "resync", "running": "all run"}
_PARTS = ("opa", "sync")
_SERVERS = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok")
"""Servers of two panels, as the API server takes ten times what OPA does."""


def picture(document: Mapping[str, Any]) -> Picture:
    """The picture of a document of bench/scale.json."""
    series, summary, circumstances = (document[part] for part in ("series", "summary", "run"))
    asked = summary["asked"]
    title = (
        f"{asked['namespaces']:,} namespaces, {asked['nodes']:,} nodes, {asked['pods']:,} pods; "
        f"{circumstances['machine']}; {circumstances['at'][:10]}; load average "
        f"{circumstances['load']:g}"
    )
    seconds, memory, marks = series["seconds"], series["memory"], summary["marks"]
    panels = [
        _panel("Memory of Fairlead's parts, MiB", seconds, _of(memory, _PARTS), marks, named=True),
        _panel("Memory of Kubernetes' servers, MiB", seconds, _of(memory, _SERVERS), marks),
        _panel(
            "Creation of a pod, milliseconds (of each second)",
            seconds,
            {"p99": series["p99"], "p50": series["p50"]},
            marks,
            logarithmic=True,
        ),
        _panel(
            "Pods a second",
            seconds,
            {"created": series["created"], "failed, and tried again": series["failed"]},
            marks,
        ),
        _panel(
            "Pods that wait for a node or for their start",
            seconds,
            {"pending": series["pending"]},
            marks,
        ),
    ]
    return {**pictures.picture(title, panels), "resolve": {"scale": {"color": "independent"}}}


def _of(memory: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The series of these servers, without those that never ran."""
    return {name: memory[name] for name in names if name in memory}


def _panel(
    title: str,
    seconds: Sequence[float],
    lines: Mapping[str, Sequence[float | None]],
    marks: Mapping[str, float],
    *,
    logarithmic: bool = False,
    named: bool = False,
) -> Picture:
    """Lines over time, with the marks; `named` says whether the marks have their names here."""
    values = [
        {"seconds": at, "line": name, "value": value}
        for name, line in lines.items()
        for at, value in zip(seconds, line, strict=True)
        if value is not None
    ]
    x = {
        "field": "seconds",
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, max(seconds)], "nice": False},
        "axis": {"labelExpr": "datum.value + ' s'", "grid": False},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "title": None,
        "scale": {"type": "log", "nice": False} if logarithmic else {"domainMin": 0},
        "axis": {"tickCount": 5},
    }
    colour = {
        "field": "line",
        "type": "nominal",
        "title": None,
        "sort": [*lines],
        "legend": {"orient": "right"} if len(lines) > 1 else None,
    }
    line = {
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {"x": x, "y": y, "color": colour},
    }
    layers = [*_marked(x, marks, named=named), line]
    return {"title": title, "width": _WIDTH, "height": 130, "layer": layers}


def _marked(x: Mapping[str, Any], marks: Mapping[str, float], *, named: bool) -> list[Picture]:
    shown = [
        {"seconds": marks[mark], "mark": label} for mark, label in _MARKS.items() if mark in marks
    ]
    layers: list[Picture] = [
        {
            "data": {"values": shown},
            "mark": {"type": "rule", "strokeDash": [4, 3]},
            "encoding": {
                "x": x,
                "color": {
                    "condition": {"test": "datum.mark === 'resync'", "value": "#d93025"},
                    "value": "#9aa0a6",
                },
            },
        }
    ]
    if "resynced" in marks:
        layers.append(
            {
                "data": {"values": [{"seconds": marks["resync"], "end": marks["resynced"]}]},
                "mark": {"type": "rect", "color": "#d93025", "opacity": 0.15},
                "encoding": {"x": x, "x2": {"field": "end"}},
            }
        )
    if named:
        layers.append(
            {
                "data": {"values": shown},
                "mark": {
                    "type": "text",
                    "align": "left",
                    "dx": 3,
                    "y": -4,
                    "fontSize": 10,
                    "color": "#333333",
                },
                "encoding": {"x": x, "text": {"field": "mark"}},
            }
        )
    return layers
