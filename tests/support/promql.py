"""What tests read of Prometheus's formats: rule files, queries, and the text of a scrape. As much as our files need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_WORDS = {"and", "bool", "by", "group_left", "group_right", "ignoring", "offset", "on", "or", "unless", "without"}
_SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$")  # a line of a scrape
_LABEL = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')


class Rule(NamedTuple):
    """A rule of a rule file."""

    kind: str  # alert or record
    name: str
    query: str


class Read(NamedTuple):
    """What a query reads."""

    metrics: frozenset[str]
    labels: frozenset[str]
    values: frozenset[tuple[str, str]]  # a label, and a value that it is compared with


def read_rules(text: str) -> Iterator[Rule]:
    """The rules of a file in which each begins with its name, and its query stands in one line or in a block."""
    for part in re.split(r"^      - ", text, flags=re.MULTILINE)[1:]:
        kind, name = part.partition("\n")[0].split(": ")
        block = re.search(r"^        expr: (?:\|\n((?:          .*\n)+)|(.+)\n)", part, flags=re.MULTILINE)
        assert block, f"{name} has no query"
        yield Rule(kind, name, block[1] or block[2])


def read_query(query: str) -> Read:
    """The metrics and the labels that a query names."""
    query = re.sub(r"\[\$?\w+\]", "", query)  # ranges
    matchers = [match.groups() for match in _LABEL.finditer(query)]
    labels = {label for label, _, _ in matchers}
    values = {(label, each) for label, _, value in matchers for each in value.split("|") if not each.startswith("$")}
    query = re.sub(r"\{[^}]*\}", "", query)
    for listed in re.findall(r"\b(?:by|on|without|ignoring|group_left) \(([^)]*)\)", query):
        labels |= set(re.findall(r"\w+", listed))
    query = re.sub(r"\b(?:by|on|without|ignoring|group_left) \([^)]*\)", "", query)
    names = re.findall(r"(?<![\w.:])([a-z_][\w:]*)(?!\w*\s*\()(?![\w:])", query)
    return Read(frozenset(set(names) - _WORDS), frozenset(labels), frozenset(values))


def read_scrape(text: str) -> dict[str, dict[str, set[str]]]:
    """Of each series of a scrape, its labels with their values."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in text.splitlines():
        if match := _SERIES.match(line):
            labels = found.setdefault(match[1], {})
            for label, _, value in _LABEL.findall(match[2] or ""):
                labels.setdefault(label, set()).add(value)
    return found
