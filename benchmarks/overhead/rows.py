"""Rows of the table, and the groups that they are measured in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import attrs

from toolcall_pipeline.testing.overhead.slices import Measurable


@attrs.frozen
class Row:
    """One figure: ``(subject - less) / over / count``, computed in each round.

    Args:
        what: the row's name, unique in the whole table.
        unit: of the figure, as printed.
        subject: the scenario that the row is about.
        over: the scenario that is the unit; None: the figure is the cost itself.
        less: a scenario whose cost is subtracted; None: nothing is subtracted.
        count: what the figure is divided by: the number of things that were added, or 1,000 to get milliseconds.
        budget: what the figure should not pass on an idle machine; None: the row has none. It is printed, and fails
            nothing: `counted` has the limits that do.
    """

    what: str
    unit: str
    subject: str
    over: str | None = None
    less: str | None = attrs.field(default=None, kw_only=True)
    count: float = attrs.field(default=1, kw_only=True)
    budget: float | None = attrs.field(default=None, kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The scenarios of one round, from the outside to its middle."""
        return tuple(name for name in (self.over, self.less, self.subject) if name is not None)

    def figure(self, costs: Mapping[str, float]) -> float:
        """The figure of one round, from the cost of each scenario."""
        cost = costs[self.subject] - (costs[self.less] if self.less is not None else 0)
        return cost / (costs[self.over] if self.over is not None else 1) / self.count


@attrs.frozen
class Group:
    """Rows that are measured in the same fresh processes.

    Args:
        name: short, for the command line.
        title: as printed above its rows.
        rows: in the order of measuring.
        scenarios: builds what the rows name, and tidies up after it.
        rounds: exactly how many, for rounds so long that probes around them say nothing; None: as the effort says.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    scenarios: Callable[[], AbstractContextManager[Mapping[str, Measurable]]] = attrs.field(repr=False)
    rounds: int | None = None
