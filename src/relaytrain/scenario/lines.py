"""Where a key stands in a file: good enough to send an editor to the right line, silent when it cannot tell."""

from __future__ import annotations

import re
from functools import lru_cache

from .fields import KeyPath

_HEADER = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", re.ASCII)
_KEY_PART = re.compile(r"""[\w-]+|"([^"]*)"|'([^']*)'""", re.ASCII)
_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\n')


def find_line(text: str, path: KeyPath, *, json: bool) -> int | None:
    """The line of `path`, or of its nearest enclosing key that can be found; None when nothing is."""
    places = _json_places(text) if json else _toml_places(text)
    for end in range(len(path), 0, -1):
        if path[:end] in places:
            return places[path[:end]]
    return None


def _parts(dotted: str) -> list[str]:
    return [next((g for g in m.groups() if g is not None), m[0]) for m in _KEY_PART.finditer(dotted)]


@lru_cache(maxsize=1)
def _toml_places(text: str) -> dict[KeyPath, int]:
    places: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None and "=" not in header[2]:
            table = _under_lists(_parts(header[2]), counts, opens=header[1] == "[[")
            for end in range(1, len(table) + 1):
                places.setdefault(table[:end], number)
            continue
        key = _KEY.match(line)
        if key is not None:
            path = table
            for part in _parts(key[1]):
                path = (*path, part)
                places.setdefault(path, number)
    return places


def _under_lists(parts: list[str], counts: dict[KeyPath, int], *, opens: bool) -> KeyPath:
    """The path a header means: tables under `[[x]]` belong to its latest item."""
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if opens and position == len(parts) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


@lru_cache(maxsize=1)
def _json_places(text: str) -> dict[KeyPath, int]:
    places: dict[KeyPath, int] = {}
    line = 1
    path: list[str | int] = []
    kinds: list[str] = []  # '{' or '[' of every open container; path holds the present key or index of each
    expect_key = expect_item = False
    for match in _JSON_TOKEN.finditer(text):
        token = match[0]
        if expect_item and token != "\n":
            places.setdefault(tuple(path), line)
            expect_item = False
        if token == "\n":
            line += 1
        elif token in "{[":
            kinds.append(token)
            path.append("" if token == "{" else 0)
            expect_key, expect_item = token == "{", token == "["
        elif token in "}]":
            if kinds:
                kinds.pop()
                path.pop()
            expect_key = False
        elif token == ",":
            if kinds and kinds[-1] == "[":
                path[-1] = int(path[-1]) + 1
                expect_item = True
            expect_key = bool(kinds) and kinds[-1] == "{"
        elif expect_key and token.startswith('"'):
            path[-1] = token[1:-1]
            places.setdefault(tuple(path), line)
            expect_key = False
    return places
