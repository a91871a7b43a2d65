"""``python -m benchmarks.growth``: measure how costs grow, print the figures and write them."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from benchmarks.growth.charts import Chart, Curve, Effort, measure_chart
from benchmarks.growth.table import BY_KEY, CHARTS
from benchmarks.overhead.results import machine

RESULTS = Path(__file__).parent.parent / "results"
FULL = Effort(rounds=5, slice=0.002, seconds=0.6, sizes=None, patience=0.5)
TINY = Effort(rounds=1, slice=0.0002, seconds=0, sizes=2, patience=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write."""
    options = _parser().parse_args(arguments)
    logging.disable()  # the loop and the other references log nothing
    try:
        anyio.run(_measure, options.only or CHARTS, TINY if options.tiny else FULL, options.to)
    finally:
        logging.disable(logging.NOTSET)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--only", type=_charts, metavar="CHARTS", help=f"some, with commas: {', '.join(BY_KEY)}")
    parser.add_argument("--tiny", action="store_true", help="two sizes and one round of each: to see that it works")
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="FOLDER", help="default: benchmarks/results")
    return parser


def _charts(names: str) -> list[Chart]:
    try:
        return [BY_KEY[name] for name in names.split(",")]
    except KeyError as exc:
        raise argparse.ArgumentTypeError(f"unknown chart {exc}; known: {', '.join(BY_KEY)}") from None


async def _measure(charts: Sequence[Chart], effort: Effort, folder: Path) -> None:
    for chart in charts:
        curves = await measure_chart(chart, effort)
        print("\n".join(_tell(chart, curves)), flush=True)
        _write(chart, curves, folder)


def _tell(chart: Chart, curves: Sequence[Curve]) -> Iterator[str]:
    sizes = sorted({size for curve in curves for size in curve.points})
    yield f"\n{chart.title}: {chart.y}"
    yield f"  {chart.x:<50}" + "".join(f"{size:>11,}" for size in sizes) + "   exponent"
    for curve in curves:
        figures = "".join(f"{curve.points[size]:>11,.4g}" if size in curve.points else f"{'':>11}" for size in sizes)
        exponent = "" if curve.exponent is None else f"{curve.exponent:>11.2f}"
        yield f"  {'(' * curve.reference + curve.name + ')' * curve.reference:<50}{figures}{exponent}"


def _write(chart: Chart, curves: Sequence[Curve], folder: Path) -> None:
    """Write the figures of a chart into the files of all charts, where the others stay."""
    file = folder / "growth.json"
    charts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["charts"] if file.exists() else {}
    charts[chart.key] = {"measured": datetime.now(UTC).date().isoformat(), **_as_json(chart, curves)}
    in_order = {key: charts[key] for key in BY_KEY if key in charts}
    measured_on = machine()
    file.write_text(json.dumps({**measured_on, "charts": in_order}, indent=1) + "\n", encoding="utf-8")
    (folder / "growth.md").write_text("\n".join(_list_lines(in_order, measured_on["cores"])) + "\n", encoding="utf-8")


def _list_lines(charts: dict[str, Any], cores: int) -> Iterator[str]:
    """Yield the lines of a page with both ends of each curve."""
    yield from ("# How the cost grew", "")
    yield f"[How it is measured](../GROWTH.md): `make bench-growth`, {cores} cores. Rows in italics are not ours."
    yield from ("", "| what grows | curve | smallest | largest |", "|---|---|---|---|")
    for chart in charts.values():
        first = f"**{chart['title']}**, {chart['y']}, {chart['measured']}"
        for curve in chart["curves"]:
            name = f"*{curve['name']}*" if curve["reference"] else curve["name"]
            ends = [f"{size:,}: {figure:,.4g}" for size, figure in (curve["points"][0], curve["points"][-1])]
            yield f"| {first} | {name} | {' | '.join(ends)} |"
            first = ""


def _as_json(chart: Chart, curves: Sequence[Curve]) -> dict[str, Any]:
    return {
        "title": chart.title,
        "x": chart.x,
        "y": chart.y,
        "curves": [
            {"name": each.name, "reference": each.reference, "points": [[x, _round(y)] for x, y in each.points.items()]}
            for each in curves
        ],
    }


def _round(value: float) -> float:
    return float(f"{value:.4g}")


if __name__ == "__main__":
    sys.exit(main())
