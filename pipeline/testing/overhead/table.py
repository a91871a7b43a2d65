"""The figures as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .costs import Overhead, StageCost
from .figures import Figure
from .later_run import Change

_HEADS = ("", "CPU, µs", "quartiles", "waits, µs", "bytes", "")
_RIGHT = (False, True, True, True, True, False)


def format_overhead(overhead: Overhead) -> str:
    """A line for each stage, and for all that is told of the whole."""
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
        cells = zip(row, widths, _RIGHT, strict=True)
        yield "  ".join(f"{cell:>{width}}" if right else f"{cell:{width}}" for cell, width, right in cells).rstrip()
