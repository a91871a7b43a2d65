"""The findings of the processes, put together: a subject in a variant is a row, and a scenario a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import attrs

from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.scenarios import Scenario


@attrs.frozen
class Cell:
    """The result of a scenario: a verdict, and the cost in each process.

    Args:
        costs: In loops by hand, one for each process.
        told: The text that the model gets.
        died: The class of the exception that ended the run; "": it survived.
        right: Whether the answer is the expected success; None: none is expected.
        leaked: Where a secret was found.
        begun: How often the body of the tool began.
        done: How often it took effect.
        spans: How many were exported.
    """

    costs: Sequence[float]
    told: str
    died: str
    right: bool | None
    leaked: Sequence[str]
    begun: int
    done: int
    spans: int

    @property
    def cost(self) -> float:
        """The median."""
        return median(self.costs)


@attrs.frozen
class Row:
    """A subject in one variant."""

    name: str
    variant: str
    path: str  # what is called, and how it is set up
    versions: Mapping[str, str]
    cells: Mapping[str, Cell]  # by the key of the scenario

    @property
    def label(self) -> str:
        """The name in tables."""
        return f"{PEERS[self.name].label}{f', {self.variant}' if self.variant else ''}"

    @property
    def success(self) -> float:
        """The cost of a successful call; 0: this variant is not measured without a provider."""
        return self.cells["success"].cost if "success" in self.cells else 0

    @property
    def ours(self) -> bool:
        """Whether it is the pipeline, as `standard` makes it."""
        return self.name == OURS and not self.variant


def merge(found: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Make the rows of what each process of each subject wrote, cheapest success first; ours on top."""
    rows: list[Row] = []
    for name, rounds in found.items():
        for variant, first in rounds[0]["variants"].items():
            cells: dict[str, Cell] = {}
            for key, verdict in first.items():
                costs = [each["variants"][variant][key]["cost"] for each in rounds]
                cells[key] = Cell(costs, **{field: value for field, value in verdict.items() if field != "cost"})
            rows.append(Row(name, variant, rounds[0]["paths"][variant], rounds[0]["versions"], cells))
    return sorted(rows, key=lambda row: (row.name != OURS, row.name != OURS and row.success))  # ours in their own order


def find_ours(rows: Sequence[Row]) -> Row:
    """The row that the others are compared with."""
    return next(row for row in rows if row.ours)


def find_faults(scenario: Scenario, cell: Cell) -> list[str]:
    """List the faults of a cell, in words."""
    faults = [f"the run ends: {cell.died}"] if cell.died else []
    if cell.right is False and not cell.died:
        faults.append("no result")
    if cell.done > scenario.done:
        faults.append(f"took effect {cell.done} times" if cell.done > 1 else "the tool ran")
    return faults + [f"secret: {where}" for where in cell.leaked]


def to_json(rows: Sequence[Row], about: Mapping[str, object], absent: Mapping[str, str]) -> dict[str, object]:
    """Return the results as JSON data, with the ratio to ours."""
    ours = find_ours(rows)
    return {
        **about,
        "unit": "the hand-written loop of the same process; CPU time of all threads",
        "absent": dict(absent),
        "rows": [
            {
                **attrs.asdict(row, filter=lambda field, _: field.name != "cells"),
                "scenarios": {
                    key: {
                        "loops": round(cell.cost, 2),
                        "times_ours": round(cell.cost / ours.cells[key].cost, 2),
                        **attrs.asdict(cell),
                    }
                    for key, cell in row.cells.items()
                },
            }
            for row in rows
        ],
    }
