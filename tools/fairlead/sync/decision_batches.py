"""Parses a batch of decisions one by one, in bounded memory.

Gzip packs up to a thousand bytes into one, and Python takes fifty bytes for the smallest JSON
value. An upload of 32 KiB that was parsed as a whole took 500 MiB of memory.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any, NamedTuple

LONGEST = 64 * 1024
"""Characters of the longest decision that is read. OPA's have a few hundred, or a few thousand for
an object with many labels."""

UNPACKED = 32 * 1024 * 1024
"""The most bytes that are unpacked from a batch. The 32 KiB of gzip that OPA sends cannot unpack to
more."""

_CHUNK = 64 * 1024
_GZIP = zlib.MAX_WBITS | 16
_BLANK = re.compile(r"[ \t\r\n]*")
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_WHOLE = re.compile(rf'(?:[^"]++|{_STRING})*+', re.DOTALL)
_NO_BRACKETS = re.compile(rf'(?:[^\[\]{{}}"]++|{_STRING})++', re.DOTALL)
_BRACKET_OR_STRING = re.compile(rf"[\[\]{{}}]|{_STRING}", re.DOTALL)
_INSIDE = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


class Decision(NamedTuple):
    """A decision: its JSON text as it was sent, and the parsed value. Both are None if the
    decision is too large or unreadable.
    """

    text: str | None
    entry: dict[str, Any] | None


def read(batch: bytes) -> Iterator[Decision]:
    """The decisions of a JSON array that is packed with gzip. Raises ValueError if `batch` is not
    such an array, possibly after some decisions.

    Three things are skipped: decisions longer than LONGEST, decisions that Python cannot parse
    (numbers of thousands of digits, a thousand levels), and everything after UNPACKED bytes. They
    raise no error, because OPA would send the batch again for ever.
    """
    text = _Text(batch)
    try:
        yield from _decisions(text)
    except ValueError:
        if not text.cut:
            raise
        yield _UNREAD


def _decisions(text: _Text) -> Iterator[Decision]:
    if text.take() != "[":
        raise _not_a_batch()
    separator = text.take() if text.next() == "]" else ","
    while separator == ",":
        yield _decision(text)
        separator = text.take()
    if separator != "]" or text.next() or not text.complete:
        raise _not_a_batch()


_UNREAD = Decision(None, None)


class _Text:
    """The text of a batch, unpacked step by step. `at` is the position in `text`; what lies before
    it is dropped when more is unpacked.
    """

    def __init__(self, batch: bytes) -> None:
        self.text, self.at = "", 0
        self.cut = False
        """Whether the batch has more than UNPACKED bytes."""
        self._packed, self._size = batch, 0
        self._unpacker = zlib.decompressobj(_GZIP)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def complete(self) -> bool:
        """Whether the whole batch was unpacked."""
        return self._unpacker.eof

    def next(self) -> str:
        """Move `at` to the next character that is not blank and return it; "" at the end."""
        while True:
            match = _BLANK.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def take(self) -> str:
        """Return the next character that is not blank and move past it; "" at the end."""
        character = self.next()
        self.at += len(character)
        return character

    def more(self) -> bool:
        """Unpack a little more; False at the end. Raises ValueError if the batch is not gzip or
        breaks off.
        """
        if self._unpacker.eof or self.cut:
            return False
        try:
            data = self._unpacker.decompress(self._packed, _CHUNK)
        except zlib.error:
            raise _not_a_batch() from None
        if not data and not self._unpacker.eof:
            raise _not_a_batch()
        self._packed = self._unpacker.unconsumed_tail
        self._size += len(data)
        self.cut = self._size >= UNPACKED and not self._unpacker.eof
        self.text = self.text[self.at :] + self._utf8.decode(data)
        self.at = 0
        return True


def _decision(text: _Text) -> Decision:
    """Parse the decision at the position of `text`, and move past it."""
    while len(text.text) - text.at <= LONGEST and text.more():
        pass
    if text.next() != "{":
        raise _not_a_batch()
    begin = text.at
    try:
        entry, end = json.JSONDecoder().raw_decode(text.text, begin)
    except (ValueError, RecursionError):
        _skip(text)
        return _UNREAD
    text.at = end
    return Decision(text.text[begin:end], entry) if end - begin <= LONGEST else _UNREAD


def _skip(text: _Text) -> None:
    """Move past the object that begins here by counting brackets, without parsing it. Raises
    ValueError if it does not end.
    """
    depth, window = 0, _CHUNK // 16
    while text.at < len(text.text) or text.more():
        literal = _WHOLE.match(text.text, text.at, text.at + window)
        part = literal[0] if literal else ""
        if not part:
            _skip_string(text)
            continue
        brackets = _NO_BRACKETS.sub("", part)
        depths = [*accumulate(map(_DEPTH.__getitem__, brackets), initial=depth)]
        if 0 in depths[1:]:
            last = depths.index(0, 1)
            positions = (
                match.end() for match in _BRACKET_OR_STRING.finditer(part) if match[0] in _DEPTH
            )
            text.at += next(islice(positions, last - 1, None))
            return
        depth = depths[-1]
        text.at += len(part)
        window = min(2 * window, _CHUNK)
    raise _not_a_batch()


def _skip_string(text: _Text) -> None:
    """Move past the string that begins here. Raises ValueError if it does not end."""
    text.at += 1
    while True:
        inside = _INSIDE.match(text.text, text.at)
        text.at = inside.end() if inside else text.at
        if text.text[text.at : text.at + 1] == '"':
            text.at += 1
            return
        if not text.more():  # the text may end in a backslash whose second half comes next
            raise _not_a_batch()


def _not_a_batch() -> ValueError:
    return ValueError("not a JSON array of decisions, as gzip")
