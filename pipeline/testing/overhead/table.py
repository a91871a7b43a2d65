"""The figures as text for a terminal, and as bars in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10

from .costs import Overhead, StageCost
from .figures import Figure
from .later_run import Change

_HEADS = ("", "CPU, µs", "quartiles", "waits, µs", "bytes", "")
_ALIGNED_RIGHT = (False, True, True, True, True, False)
_LEFT, _BARS, _RIGHT = 150, 520, 110  # px: names, bars, figures
_ROW, _BAR, _TOP, _BOTTOM = 30, 16, 64, 46  # px
_CPU, _WAIT, _INK, _FAINT = "#2a6f97", "#e9a23b", "#222", "#ccc"
_TICKS = 4
_STEPS = (1, 2, 5, 10)


def format_overhead(overhead: Overhead) -> str:
    """Return a line for each stage, and one for each figure of the whole."""
    rows = [_HEADS, *(_stage_row(each) for each in overhead.stages)]
    rows += [
        _row("the pipeline itself", f"{overhead.rest / 1e3:.2f}"),
        _figure_row("a call beyond its tool", overhead.whole),
        _figure_row("one more no-op middleware", overhead.no_op),
    ]
    if overhead.failures:
        rows.append(_row("a call that fails"))
        rows += [_figure_row(f"  {kind}", figure) for kind, figure in overhead.failures.items()]
    held = overhead.allocations
    blocks = f"{held.blocks:,.0f} blocks while its tool runs, and leaves {held.left_blocks:.2f}"
    lines = [
        *_align(rows),
        f"a call holds {held.peak_bytes:,.0f} bytes at most and {blocks}",
        f"one loop carries {overhead.calls_per_second:,.0f} calls a second ({overhead.in_flight} at a time)",
    ]
    return "\n".join(lines)


def format_changes(changes: Sequence[Change]) -> str:
    """A line for each figure of two runs."""
    rows = [
        ("", "before, µs", "now, µs", "", "", ""),
        *(_row(each.what, _show(each.before), _show(each.now), verdict=each.verdict) for each in changes),
    ]
    return "\n".join(_align(rows))


def _show(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e3:.2f}"


def _stage_row(cost: StageCost) -> tuple[str, ...]:
    if cost.figure is None:
        return _row(cost.name, verdict="cannot be told: calls end otherwise without it")
    notes = [
        "within noise" if cost.figure.within_noise else "",
        "beyond a pass-through" if cost.how == "pass-through" else "",
        "blocks the loop" if cost.blocks_loop else "",
        f"its place makes others dearer: {cost.place_ns / 1e3:.2f} µs of it" if cost.place_ns else "",
    ]
    name, *cells, _ = _figure_row(cost.name, cost.figure)
    cells[-1] = "" if cost.allocations is None else f"{cost.allocations.peak_bytes:,.0f}"
    return (name, *cells, ", ".join(filter(None, notes)))


def _figure_row(name: str, figure: Figure) -> tuple[str, ...]:
    low, high = figure.quartiles
    elsewhere = f"+ {figure.elsewhere_ns / 1e3:.2f} µs in other threads" if figure.elsewhere_ns else ""
    waits = f"{figure.waited_ns / 1e3:.0f}" if figure.waited_ns else ""
    return _row(name, f"{figure.ns / 1e3:.2f}", f"{low / 1e3:.2f} - {high / 1e3:.2f}", waits, verdict=elsewhere)


def _row(name: str, *cells: str, verdict: str = "") -> tuple[str, ...]:
    return (name, *cells, *[""] * (4 - len(cells)), verdict)


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, _ALIGNED_RIGHT, strict=True)
        yield "  ".join(f"{cell:>{width}}" if right else f"{cell:{width}}" for cell, width, right in cells).rstrip()


def draw_bars(overhead: Overhead, title: str) -> str:
    """Return an SVG with a bar for each stage of known cost: CPU, then waits; a line spans the quartiles."""
    shown = [(each, each.figure) for each in overhead.stages if each.figure is not None]
    height = _TOP + _ROW * len(shown) + _BOTTOM
    longest = max((max(each.quartiles[1], each.ns) + each.waited_ns for _, each in shown), default=0)
    step = _choose_step(max(longest, 1) / 1e3)
    scale = _BARS / (_TICKS * step) if step else 1.0
    width = _LEFT + _BARS + _RIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _draw_text(12, 24, f"What each stage of {title} costs", weight="bold", size=15),
        *_draw_legend(any(each.waited_ns for _, each in shown)),
        *_draw_axis(step, scale, _TOP + _ROW * len(shown)),
    ]
    for number, (cost, figure) in enumerate(shown):
        lines += _draw_row(cost, figure, _TOP + number * _ROW, scale)
    return "\n".join([*lines, "</svg>", ""])


def _choose_step(longest: float) -> float:
    """The µs from one tick to the next: 1, 2 or 5 times a power of ten, so that the ticks reach the longest bar."""
    power = 10.0 ** floor(log10(longest / _TICKS))
    return next(each * power for each in _STEPS if each * power * _TICKS >= longest)


def _draw_legend(waits: bool) -> Iterator[str]:  # noqa: FBT001  # inside
    places: Sequence[tuple[int, str, str]] = [(_LEFT, _CPU, "CPU"), (_LEFT + 70, _WAIT, "waiting")][: 1 + waits]
    for x, colour, what in places:
        yield f'<rect x="{x}" y="36" width="12" height="12" fill="{colour}"/>'
        yield _draw_text(x + 17, 47, what)


def _draw_axis(step: float, scale: float, bottom: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        x = _LEFT + tick * step * scale
        yield f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{_FAINT}"/>'
        yield _draw_text(x, bottom + 17, f"{tick * step:,.10g}", anchor="middle")
    yield _draw_text(_LEFT + _BARS / 2, bottom + 36, "µs a call", anchor="middle")


def _draw_row(cost: StageCost, figure: Figure, top: int, scale: float) -> Iterator[str]:
    middle = top + _ROW / 2
    cpu, waits = max(figure.ns, 0) / 1e3, figure.waited_ns / 1e3
    bar = f'y="{middle - _BAR / 2:.1f}" height="{_BAR}"'
    yield _draw_text(_LEFT - 10, middle + 4, cost.name, anchor="end")
    yield f'<rect x="{_LEFT}" width="{cpu * scale:.1f}" {bar} fill="{_CPU}"/>'
    if waits:
        yield f'<rect x="{_LEFT + cpu * scale:.1f}" width="{waits * scale:.1f}" {bar} fill="{_WAIT}"/>'
    low, high = (_LEFT + max(each, 0) / 1e3 * scale for each in figure.quartiles)
    yield f'<line x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}" stroke="{_INK}" stroke-width="2"/>'
    told = "within noise" if figure.within_noise else f"{cpu + waits:,.2f}"
    end = max(_LEFT + (cpu + waits) * scale, high) + 8
    yield _draw_text(end, middle + 4, told)


def _draw_text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", size: int = 13) -> str:
    """A text whose base line is at ``y``; ``anchor`` is the part of it that is at ``x``."""
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{_INK}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
