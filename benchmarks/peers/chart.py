"""The results as a picture: what a successful call costs, and beside it what becomes of each mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import log10

from benchmarks.peers.catalogue import OURS
from benchmarks.peers.results import Row, find_faults
from benchmarks.peers.scenarios import SCENARIOS, Scenario
from benchmarks.peers.table import format_number

_NAMES, _BARS, _CELL, _GAP = 250, 200, 68, 44  # px: names, bars, one column of the grid, between both
_ROW, _BAR, _TOP, _BOTTOM = 26, 14, 104, 60  # px
_INK, _PAPER, _FAINT, _MINE, _THEIRS = "#222", "white", "#ddd", "#1b7f5c", "#8a9aa8"
_GOOD, _NOTHING, _BAD, _LEAK = "#cfe8dc", "#f3e3b3", "#e8a79b", "#c9503c"
_GRID = tuple(each for each in SCENARIOS if each.key != "success")
_LEGEND = (
    (_GOOD, "result, or a message about the failure"),
    (_NOTHING, "no result where there could be one"),
    (_BAD, "run ends, or effect too often"),
    (_LEAK, "secret got out"),
)


def draw_chart(rows: Sequence[Row], title: str) -> str:
    """An SVG: a bar on a logarithmic scale for each row, and a grid of the scenarios."""
    width = _NAMES + _BARS + _GAP + _CELL * len(_GRID) + 16
    height = _TOP + _ROW * len(rows) + _BOTTOM
    decades = max(1, -int(-log10(max(row.success for row in rows)) // 1))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>',
        _text(12, 24, title, size=15, weight="bold"),
        *_draw_legend(),
        *_draw_axis(decades, _TOP + _ROW * len(rows)),
        *_draw_heads(),
    ]
    for number, row in enumerate(rows):
        lines += _draw_row(row, _TOP + number * _ROW, _BARS / decades)
    return "\n".join([*lines, "</svg>", ""])


def choose_colour(scenario: Scenario, row: Row) -> str:
    """The worst of what became of it."""
    cell = row.cells[scenario.key]
    if cell.leaked:
        return _LEAK
    if cell.died or cell.done > scenario.done:
        return _BAD
    return _NOTHING if find_faults(scenario, cell) else _GOOD


def _draw_legend() -> Iterator[str]:
    x = 12
    for colour, meaning in _LEGEND:
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 18, 48, meaning)
        x += 40 + int(6.6 * len(meaning))


def _draw_axis(decades: int, bottom: int) -> Iterator[str]:
    for decade in range(decades + 1):
        x = _NAMES + decade * _BARS / decades
        yield f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{_FAINT}"/>'
        yield _text(x, bottom + 18, f"{10**decade:,}", anchor="middle")
    yield _text(_NAMES + _BARS / 2, bottom + 38, "a successful call, in hand-written loops", anchor="middle")


def _draw_heads() -> Iterator[str]:
    for number, scenario in enumerate(_GRID):
        middle = _NAMES + _BARS + _GAP + (number + 0.5) * _CELL
        first, *rest = scenario.label.rsplit(" ", 1)
        yield _text(middle, _TOP - 26, first, anchor="middle", size=11)
        yield _text(middle, _TOP - 12, "".join(rest), anchor="middle", size=11)


def _draw_row(row: Row, top: int, decade: float) -> Iterator[str]:
    middle = top + _ROW / 2
    length = log10(max(1.0, row.success)) * decade
    mine = row.name == OURS
    yield _text(_NAMES - 10, middle + 4, row.label, anchor="end", weight="bold" if mine else "normal")
    bar = f'x="{_NAMES}" y="{middle - _BAR / 2:.1f}" width="{length:.1f}" height="{_BAR}"'
    yield f'<rect {bar} fill="{_MINE if mine else _THEIRS}"/>'
    if row.success:
        yield _text(_NAMES + length + 6, middle + 4, format_number(row.success))
    for number, scenario in enumerate(_GRID):
        if scenario.key not in row.cells:
            continue
        x = _NAMES + _BARS + _GAP + number * _CELL
        cell = f'x="{x + 1}" y="{top + 1}" width="{_CELL - 2}" height="{_ROW - 2}"'
        colour = choose_colour(scenario, row)
        ink = _PAPER if colour == _LEAK else _INK
        yield f'<rect {cell} fill="{colour}"/>'
        told = format_number(row.cells[scenario.key].cost)
        yield _text(x + _CELL / 2, middle + 4, told, anchor="middle", size=11, ink=ink)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 12, ink: str = _INK
) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{ink}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
