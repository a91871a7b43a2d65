"""Curves as an SVG with two logarithmic axes, on which a straight line is a power of n."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

import attrs

from benchmarks.growth.charts import Chart, Curve
from toolcall_pipeline.testing.overhead.table import draw_text

_LEFT, _WIDTH, _RIGHT = 70, 470, 350  # px: labels, plot, legend
_TOP, _HEIGHT, _BOTTOM = 56, 320, 52  # px
_COLOURS = ("#2a6f97", "#e9a23b", "#8f2d56", "#4b9c6b", "#6a4c93", "#d1495b", "#5c6b73")
_FAINT, _REFERENCE = "#ddd", "#777"
_DASHES = ("6 4", "2 3", "10 3 2 3")
_APART = 17  # px between two lines of the legend, at least


@attrs.frozen
class _Axis:
    """A logarithmic axis: from which power of ten to which, and where it lies.

    Args:
        low: The exponent at ``start``.
        high: The exponent at ``end``.
        start: px.
        end: px.
    """

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """The px of a value; what is below the axis is drawn on its end."""
        share = (max(log10(value), self.low) - self.low) / (self.high - self.low) if value > 0 else 0.0
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[int]:
        """The powers of ten on it."""
        return list(range(ceil(self.low), floor(self.high) + 1))


def draw_curves(chart: Chart, curves: Sequence[Curve]) -> str:
    """The SVG: our curves in colours, references dashed and grey; the legend in the order of the right ends."""
    shown = [curve for curve in curves if curve.points]
    sizes = [log10(size) for curve in shown for size in curve.points]
    values = [log10(value) for curve in shown for value in curve.points.values() if value > 0] or [0.0]
    x = _Axis(min(sizes), max(*sizes, min(sizes) + 1e-9), _LEFT, _LEFT + _WIDTH)
    lowest = floor(min(values))
    y = _Axis(lowest, max(*map(ceil, values), lowest + 1), _TOP + _HEIGHT, _TOP)
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        draw_text(12, 22, chart.title, weight="bold", size=15),
        draw_text(12, 42, chart.y),
        *_draw_axes(chart, x, y, sorted({size for curve in shown for size in curve.points})),
        *_draw_lines(shown, x, y),
    ]
    return "\n".join([*lines, "</svg>", ""])


def _draw_axes(chart: Chart, x: _Axis, y: _Axis, sizes: Sequence[int]) -> Iterator[str]:
    for power in y.ticks():
        at = y.place(10.0**power)
        yield f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + _WIDTH}" y2="{at:.1f}" stroke="{_FAINT}"/>'
        yield draw_text(_LEFT - 8, at + 4, f"{10.0**power:,.10g}", anchor="end")
    for each in sizes:
        at = x.place(each)
        yield f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_TOP + _HEIGHT}" stroke="{_FAINT}"/>'
        yield draw_text(at, _TOP + _HEIGHT + 18, f"{each:,}", anchor="middle")
    yield draw_text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 40, chart.x, anchor="middle")


def _draw_lines(curves: Sequence[Curve], x: _Axis, y: _Axis) -> Iterator[str]:
    colours, dashes = iter(_COLOURS), iter(_DASHES)
    ends: list[tuple[float, str, str]] = []
    for curve in curves:
        colour = _REFERENCE if curve.reference else next(colours)
        dash = f' stroke-dasharray="{next(dashes)}"' if curve.reference else ""
        points = [(x.place(size), y.place(value)) for size, value in curve.points.items()]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dash}'
        yield f'<polyline points="{path}" {style}/>'
        for px, py in points:
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>'
        ends.append((points[-1][1], curve.name, style))
    lowest = _TOP - 6.0
    for number, (end, name, style) in enumerate(sorted(ends)):
        room = _TOP + _HEIGHT - _APART * (len(ends) - number - 1)
        lowest = max(lowest + _APART, min(end, room))
        left = _LEFT + _WIDTH + 14
        yield f'<line x1="{left}" y1="{lowest:.1f}" x2="{left + 26}" y2="{lowest:.1f}" {style}/>'
        yield draw_text(left + 32, lowest + 4, name)
