"""Parses a batch of decisions one by one, in bounded memory.

Gzip packs a thousand bytes into one, and Python takes fifty for each of JSON's smallest values: 32
KiB of upload, read as a whole, were 500 MiB of memory.
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
"""Characters of a decision that is read; OPA's are some hundred, or some thousand for an object
with many labels."""

UNPACKED = 32 * 1024 * 1024
"""Bytes of a batch that are looked at: no 32 KiB of gzip, which is what OPA makes, unpack to
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
    """A decision: its JSON as it was sent, and what that says. Of one too large or unreadable
    both are None.
    """

    text: str | None
    entry: dict[str, Any] | None


def read(batch: bytes) -> Iterator[Decision]:
    """The decisions of a JSON array that is packed with gzip. Raises ValueError, maybe late, where
    it is none.

    What is longer than LONGEST is not read, nor is what Python cannot read (numbers of thousands of
    digits, a thousand levels), nor what comes after UNPACKED bytes. That is no error: OPA would
    send the batch again, for ever.
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
        raise _none()
    separator = text.take() if text.next() == "]" else ","
    while separator == ",":
        yield _decision(text)
        separator = text.take()
    if separator != "]" or text.next() or not text.complete:
        raise _none()


_UNREAD = Decision(None, None)


class _Text:
    """What a batch unpacks to, as far as it is looked at: `text` from `at` on, of which what is
    passed is forgotten.
    """

    def __init__(self, batch: bytes) -> None:
        self.text, self.at = "", 0
        self.cut = False
        """Whether there is more than UNPACKED bytes of it."""
        self._packed, self._size = batch, 0
        self._unpacker = zlib.decompressobj(_GZIP)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def complete(self) -> bool:
        """Whether it was unpacked to its end."""
        return self._unpacker.eof

    def next(self) -> str:
        """The next character that is no blank, at which `at` then is; "" at the end."""
        while True:
            match = _BLANK.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def take(self) -> str:
        """The next character that is no blank, which then is passed; "" at the end."""
        character = self.next()
        self.at += len(character)
        return character

    def more(self) -> bool:
        """Unpack a little more; False at the end. Raises ValueError where it is no gzip, or one
        that breaks off.
        """
        if self._unpacker.eof or self.cut:
            return False
        try:
            data = self._unpacker.decompress(self._packed, _CHUNK)
        except zlib.error:
            raise _none() from None
        if not data and not self._unpacker.eof:
            raise _none()
        self._packed = self._unpacker.unconsumed_tail
        self._size += len(data)
        self.cut = self._size >= UNPACKED and not self._unpacker.eof
        self.text = self.text[self.at :] + self._utf8.decode(data)
        self.at = 0
        return True


def _decision(text: _Text) -> Decision:
    """The decision at which `text` is, and which it then has passed."""
    while len(text.text) - text.at <= LONGEST and text.more():
        pass
    if text.next() != "{":
        raise _none()
    begin = text.at
    try:
        entry, end = json.JSONDecoder().raw_decode(text.text, begin)
    except (ValueError, RecursionError):
        _skip(text)
        return _UNREAD
    text.at = end
    return Decision(text.text[begin:end], entry) if end - begin <= LONGEST else _UNREAD


def _skip(text: _Text) -> None:
    """Pass the object that begins here by its brackets alone. Raises ValueError where it does
    not end.
    """
    depth, window = 0, _CHUNK // 16
    while text.at < len(text.text) or text.more():
        whole = _WHOLE.match(text.text, text.at, text.at + window)
        part = whole[0] if whole else ""
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
    raise _none()


def _skip_string(text: _Text) -> None:
    """Pass the string that begins here. Raises ValueError where it does not end."""
    text.at += 1
    while True:
        inside = _INSIDE.match(text.text, text.at)
        text.at = inside.end() if inside else text.at
        if text.text[text.at : text.at + 1] == '"':
            text.at += 1
            return
        if not text.more():  # a backslash may be left, of which the other half is still to come
            raise _none()


def _none() -> ValueError:
    return ValueError("not a JSON array of decisions, as gzip")
