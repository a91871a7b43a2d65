"""The result of a row: how it is printed, kept, judged, and compared with an earlier run."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

from benchmarks.overhead.rows import Row

LANDED = Path(__file__).parent.parent / "results" / "overhead.json"  # an earlier run, by which rows are judged
NOISE = 0.1  # a share of the limit: --check complains beyond it
_STEP = 0.04  # a share of a figure: two runs that differ by less are the same
_DISTRIBUTIONS = (
    "toolcall-pipeline",
    "anyio",
    "attrs",
    "jsonschema-rs",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "pydantic",
    "rapidfuzz",
    "returns",
)


@attrs.frozen
class Result:
    """A row as it was measured.

    Args:
        row: what was measured.
        figures: one for each process.
        landed: the figure that it was last accepted with; None: none.
    """

    row: Row
    figures: Sequence[float]
    landed: float | None = None

    @property
    def median(self) -> float:
        """The figure that is printed."""
        return statistics.median(self.figures)

    @property
    def limit(self) -> float | None:
        """What ``--check`` and ``--guard`` judge by, the budget or where it landed; None: nothing."""
        return None if self.row.must is None else max(self.row.must, self.landed or 0)

    @property
    def verdict(self) -> str:
        """``ok``, ``over``, or ``over, as before``; empty for a row without a budget."""
        if self.row.must is None or self.limit is None:
            return ""
        if self.median <= self.row.must:
            return "ok"
        return "over, as before" if self.row.must < self.limit and not self.exceeds(NOISE) else "over"

    def exceeds(self, share: float) -> bool:
        """Whether the row is over its limit by more than that share of it."""
        return self.limit is not None and self.median > self.limit * (1 + share)

    def line(self) -> str:
        """The row as it is printed."""
        must, aim = ("" if budget is None else f"{budget:,g}" for budget in (self.row.must, self.row.aim))
        spread = f"{digits(min(self.figures))} - {digits(max(self.figures))}"
        return columns(self.row.what, digits(self.median), self.row.unit, spread, must, aim, self.verdict)

    def as_json(self) -> dict[str, Any]:
        """The row as it is kept."""
        return {
            "what": self.row.what,
            "unit": self.row.unit,
            "median": self.median,
            "figures": list(self.figures),
            "must": self.row.must,
            "aim": self.row.aim,
            "landed": self.landed,
            "verdict": self.verdict,
        }

    def compared(self, earlier: Mapping[str, Any]) -> str:
        """``better``, ``same`` or ``worse`` than the same row of an earlier run.

        ``same`` if the ranges of the two runs' processes touch, or if the medians differ by less than 4 %.
        """
        before = earlier["figures"]
        if abs(self.median - earlier["median"]) <= _STEP * abs(earlier["median"]):
            return "same"
        if max(self.figures) < min(before):
            return "better"
        return "worse" if min(self.figures) > max(before) else "same"


def read_landed() -> dict[str, float]:
    """The figure that each row was last accepted with, by the row's name."""
    rows: list[dict[str, Any]] = json.loads(LANDED.read_text(encoding="utf-8"))["rows"]
    return {row["what"]: row["landed"] for row in rows if row["landed"] is not None}


def columns(what: str, median: str, unit: str, spread: str, must: str, aim: str, verdict: str) -> str:
    """Format one line of the table."""
    return f"  {what:47} {median:>7} {unit:13} {spread:15} {must:>6} {aim:>6}  {verdict}".rstrip()


def digits(value: float) -> str:
    """Format with three digits, or with all digits of a larger number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004


def machine() -> dict[str, Any]:
    """The interpreter, platform and versions; nothing that identifies the machine."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in _DISTRIBUTIONS},
    }
