"""What all pictures of figures have in common, and their two forms. The language is Vega-Lite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import vl_convert

Picture = dict[str, Any]


def picture(title: str, panels: Sequence[Picture]) -> Picture:
    """A picture of panels, one below the other."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "title": {"text": title, "fontSize": 11, "fontWeight": "normal"},
        "config": {
            "font": "Liberation Sans, Arial, sans-serif",
            "axis": {"labelFontSize": 12, "labelLimit": 220},
            "legend": {"labelFontSize": 12, "titleFontSize": 12},
            "title": {"anchor": "start", "fontSize": 13},
        },
        "vconcat": [*panels],
    }


def svg(picture: Picture) -> str:
    """The picture as SVG."""
    return str(vl_convert.vegalite_to_svg(json.dumps(picture)))


def png(picture: Picture) -> bytes:
    """The picture as PNG, a quarter larger."""
    return bytes(vl_convert.vegalite_to_png(json.dumps(picture), scale=1.25))
