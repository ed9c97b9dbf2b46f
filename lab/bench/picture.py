"""Draws the picture of bench/results.json: what each peer adds to the creation of a pod, and how
many pods a second are left of those without a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.bench import pictures
from lab.bench.figures import Row
from lab.bench.peers import PEERS

_COLOURS = {"floor": "#9aa0a6", "Fairlead": "#1a73e8", "other": "#e8710a"}
_SHAPES = ["circle", "diamond", "triangle-up"]
_TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_PANELS = {
    "latency": "Creation of a pod, one client: time, as a multiple of that without a policy",
    "throughput": "Pods a second, 16 clients, as a part of those without a policy",
}


def draw(rows: Sequence[Row], svg: Path, png: Path) -> None:
    """Write the picture of the rows in both forms. Rows of other suites are left out; if there are
    only such, there is no picture.
    """
    if not any(_shown(rows, suite) for suite in _PANELS):
        return
    picture = _picture(rows)
    svg.write_text(pictures.svg(picture), encoding="utf-8")
    png.write_bytes(pictures.png(picture))


def _picture(rows: Sequence[Row]) -> pictures.Picture:
    shown = {suite: _shown(rows, suite) for suite in _PANELS}
    return pictures.picture(
        _measured(rows),
        [
            _panel(values, _PANELS[suite], first=suite == "latency")
            for suite, values in shown.items()
            if values
        ],
    )


def _measured(rows: Sequence[Row]) -> str:
    """When and on what the rows that are shown were measured."""
    runs = [row["run"] for row in rows if row["suite"] in _PANELS]
    loads = [run["load"] for run in runs]
    machines = ", ".join(sorted({run["machine"] for run in runs}))
    days = " to ".join(sorted({run["at"][:10] for run in runs}))
    return f"{machines}; {days}; load average {min(loads):g} to {max(loads):g}"


def _shown(rows: Sequence[Row], suite: str) -> list[dict[str, Any]]:
    groups = {peer.name: peer.group for peer in PEERS}
    return [
        {
            "peer": row["peer"],
            "group": groups[row["peer"]],
            "namespaces": f"{row['n']:,}",
            "ratio": row["ratio_to_floor"],
            "lower": row["ratio_quartiles"][0],
            "upper": row["ratio_quartiles"][1],
        }
        for row in rows
        if row["suite"] == suite and row["peer"] != row["floor"] and row["clients"] in (1, 16)
    ]


def _panel(values: list[dict[str, Any]], title: str, *, first: bool) -> dict[str, Any]:
    peers = [peer.name for peer in PEERS]
    sizes = sorted({value["namespaces"] for value in values}, key=len)
    colour = {
        "field": "group",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [*_COLOURS], "range": [*_COLOURS.values()]},
    }
    shape = {
        "field": "namespaces",
        "type": "nominal",
        "title": "mapped namespaces",
        "sort": sizes,
        "scale": {"domain": sizes, "range": _SHAPES[: len(sizes)]},
    }
    scale: dict[str, Any] = {"domainMin": 0}
    axis: dict[str, Any] = {"format": ".0%"}
    if first:
        highest = 1.15 * max(value["upper"] for value in values)
        lowest = min(0.9, *(0.95 * value["lower"] for value in values))
        scale = {"type": "log", "domain": [lowest, max(2, highest)], "nice": False}
        axis = {"values": [tick for tick in _TICKS if tick <= highest]}
    across = {"field": "ratio", "type": "quantitative", "title": None, "scale": scale, "axis": axis}
    by_size = {"field": "namespaces", "type": "nominal", "sort": sizes}
    return {
        "title": title,
        "width": 620,
        "height": {"step": 13},
        "data": {"values": values},
        "encoding": {
            "y": {"field": "peer", "type": "nominal", "sort": peers, "title": None},
            "yOffset": by_size,
            "color": colour,
        },
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
                "encoding": {
                    "x": {**across, "field": "lower"},
                    "x2": {"field": "upper"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {"x": across, "shape": shape},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 10},
                "encoding": {
                    "x": {**across, "field": "upper"},
                    "text": {"field": "ratio", "format": ".2f" if first else ".0%"},
                    "color": {"value": "#333333"},
                },
            },
        ],
    }
