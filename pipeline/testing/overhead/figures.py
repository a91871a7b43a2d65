"""Figures: what was measured in many rounds, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median, quantiles
from typing import Any

import attrs

from .slices import Spent

# Of the IQR over √n: the notch of a box plot, McGill, Tukey and Larsen, The American Statistician 32 (1978).
_NOTCH = 1.57
_LAYOUT = 50.0  # ns; where objects lie in memory moves a figure by that much, however many rounds there are
_LEAST_WAIT = 1_000  # ns; what is less is the price of looking at the clocks
_FEW = 2  # one figure has no quartiles


@attrs.frozen
class Figure:
    """The time of one operation, in ns: the median of many rounds.

    Args:
        ns: Of the CPU, in the thread of the event loop.
        quartiles: Of the rounds: a quarter of them found less than the first, and a quarter more than the second.
        noise: How far the median may be from the truth, in 95 of 100 cases.
        waited_ns: The time while the thread neither ran nor was ready to run; 0 if that is within the noise.
        elsewhere_ns: Of the CPU in other threads; 0 if that is within the noise.
    """

    ns: float
    quartiles: tuple[float, float]
    noise: float
    waited_ns: float = 0.0
    elsewhere_ns: float = 0.0

    @classmethod
    def of(cls, rounds: Sequence[Spent]) -> Figure:
        """The figure of so many rounds, at least one."""
        middle, quartiles, noise = _summarise([each.cpu for each in rounds])
        waited, _, waited_noise = _summarise([each.waited for each in rounds])
        elsewhere, _, elsewhere_noise = _summarise([each.elsewhere for each in rounds])
        return cls(
            middle,
            quartiles,
            noise,
            waited if waited > max(waited_noise, _LEAST_WAIT) else 0.0,
            elsewhere if elsewhere > max(elsewhere_noise, _LEAST_WAIT) else 0.0,
        )

    @property
    def within_noise(self) -> bool:
        """Whether it may as well be nothing: neither the CPU nor a wait stands out."""
        return abs(self.ns) <= max(self.noise, _LAYOUT) and not self.waited_ns

    def over(self, count: float) -> Figure:
        """Of one, where the figure is that of so many."""
        low, high = self.quartiles
        return Figure(
            self.ns / count,
            (low / count, high / count),
            self.noise / count,
            self.waited_ns / count,
            self.elsewhere_ns / count,
        )

    def as_json(self) -> dict[str, Any]:
        """The figure as it is kept."""
        return {
            "ns": round(self.ns, 1),
            "quartiles": [round(each, 1) for each in self.quartiles],
            "noise_ns": round(self.noise, 1),
            "waited_ns": round(self.waited_ns, 1),
            "elsewhere_ns": round(self.elsewhere_ns, 1),
        }


def _summarise(values: Sequence[float]) -> tuple[float, tuple[float, float], float]:
    """Median, quartiles and notch."""
    middle = median(values)
    if len(values) < _FEW:
        return middle, (middle, middle), 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return middle, (low, high), _NOTCH * (high - low) / sqrt(len(values))
