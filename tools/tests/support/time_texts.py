"""Texts that are times of RFC 3339, or nearly."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

two = st.integers(0, 70).map("{:02}".format)
years = st.sampled_from([0, 1, 4, 100, 400, 1677, 1678, 1900, 1969, 1970, 2000, 2024, 2026, 2100])
fractions = st.none() | st.text("0123456789", min_size=1, max_size=30) | st.sampled_from(["0", "5"])
zones = st.sampled_from(
    [
        *("Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+24:00", "-24:00", "+05:30", ""),
        *("+14:00", "+14:01", "-14:01", "-12:00", "+12:60", "+99:99", "+1:00", "+0100"),
    ]
)


def spelled(parts: tuple[Any, ...]) -> str:
    year, month, day, between, hour, minute, second, fraction, zone = parts
    after = "" if fraction is None else f".{fraction}"
    return f"{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}{after}{zone}"


legal = st.tuples(
    years | st.sampled_from([2262, 2263, 9999]) | st.integers(0, 9999),
    st.integers(1, 12),
    st.integers(1, 31) | st.sampled_from([28, 29, 30, 31]),
    st.sampled_from("TTTt"),
    st.integers(0, 23) | st.sampled_from([0, 23]),
    st.integers(0, 59),
    st.integers(0, 59) | st.sampled_from([0, 59]),
    fractions,
    zones | st.tuples(st.sampled_from("+-"), two, two).map(lambda z: f"{z[0]}{z[1]}:{z[2]}"),
).map(spelled)
broken = st.tuples(
    legal, st.integers(0, 40), st.sampled_from(["", "0", "9", " ", "x", "\n", ":"])
).map(lambda change: change[0][: change[1]] + change[2] + change[0][change[1] + 1 :])
out_of_range = st.tuples(
    st.integers(0, 12000),
    st.integers(0, 14),
    st.integers(0, 33),
    st.sampled_from("T _"),
    st.integers(0, 25),
    st.integers(0, 61),
    st.integers(0, 61),
    fractions,
    zones,
).map(spelled)
ODDITIES = [
    *("", "Z", "2026-11-21", "2026-11-21T20:44:36", "2026-11-21T20:44:36.Z", "20261121T204436Z"),
    *("2026-11-21T20:44Z", "2026-11-21T20:44:36+0100", "2026-11-21T20:44:36Z\n", "now"),
    *("2026-06-30T23:59:60Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z"),
    *("٢٠٢٦-11-21T20:44:36Z", "2026-11-21T20:44:36,5Z", "+2026-11-21T20:44:36Z"),
]
GOOD = [
    *("0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z", "0000-01-01T00:00:00+23:59"),
    *("9999-12-31T23:59:59.999999999999Z", "9999-12-31T23:59:59-23:59", "2000-02-29T12:00:00Z"),
    *("2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z", "2026-01-01t00:00:00z"),
]
EDGES = [
    f"2026-11-27T06:00:00{sign}{hours:02}:{minutes:02}"
    for sign in "+-"
    for hours in (0, 11, 12, 13, 14, 15, 23, 24, 25, 99)
    for minutes in (0, 1, 59, 60)
]
"""Offsets about the limits of those that there are, and of those that RFC 3339 has."""
