"""The result of a row: how it is printed, kept, and compared with an earlier run."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs

from benchmarks.overhead.rows import Row

LAST_RUN = Path(__file__).parent.parent / "results" / "overhead.json"
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
    """

    row: Row
    figures: Sequence[float]

    @property
    def median(self) -> float:
        """The figure that is printed."""
        return statistics.median(self.figures)

    def line(self) -> str:
        """The row as it is printed."""
        budget = "" if self.row.budget is None else f"{self.row.budget:,g}"
        spread = f"{digits(min(self.figures))} - {digits(max(self.figures))}"
        return columns(self.row.what, digits(self.median), self.row.unit, spread, budget)

    def as_json(self) -> dict[str, Any]:
        """The row as it is kept."""
        return {
            "what": self.row.what,
            "unit": self.row.unit,
            "median": self.median,
            "figures": list(self.figures),
            "budget": self.row.budget,
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


def columns(what: str, median: str, unit: str, spread: str, budget: str) -> str:
    """Format one line of the table."""
    return f"  {what:47} {median:>7} {unit:13} {spread:15} {budget:>6}".rstrip()


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
