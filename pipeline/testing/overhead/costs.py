"""Overhead: what a pipeline and each of its stages cost, as a value."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import attrs

from ...engine.compose.stage import Role
from .ablation import Allocations, How
from .figures import Figure


@attrs.frozen
class StageCost:
    """The cost of one stage.

    Args:
        name: Of the stage.
        role: ``"check"``, ``"wrap"``, ``"end"`` or ``"observe"``.
        figure: By how much a call costs more with the stage than without it. None: unknown, because calls
            end otherwise without it.
        how: The replacement in its place: nothing, or a pass-through, because the pipeline does not work without it.
        allocations: By how much a call allocates more with the stage. None: as for ``figure``.
        blocks_loop: Whether no other call can run while it waits.
        place_ns: By how much a middleware that does nothing costs more in its place than right outside the end: its
            place, or what its `Placement` says, makes other stages dearer. 0 within the noise.
    """

    name: str
    role: Role
    figure: Figure | None
    how: How = "left out"
    allocations: Allocations | None = None
    blocks_loop: bool = False
    place_ns: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The cost as it is kept."""
        return {
            "name": self.name,
            "role": self.role,
            **_json_of(self.figure),
            "within_noise": self.figure is not None and self.figure.within_noise,
            "without": self.how,
            "blocks_loop": self.blocks_loop,
            "place_ns": round(self.place_ns, 1),
            "allocations": None if self.allocations is None else self.allocations.as_json(),
        }


@attrs.frozen
class Overhead:
    """The cost of a pipeline, beyond its tools. `measure` makes it; times are in ns.

    Args:
        stages: In the order of the pipeline, outermost first.
        whole: A call, less its tool.
        rest: The cost of the whole beyond its stages: the pipeline itself. Less the pass-throughs, each of which has
            the cost that its place demands of any stage.
        no_op: One more middleware that does nothing: the unit of `assert_overhead`.
        failures: A failing call, less its tool, by the kind of failure. Waits before a retry are skipped.
        allocations: Of a call, its tool included.
        calls_per_second: Calls that one event loop carries, with ``in_flight`` calls at a time.
        in_flight: See there.
        backend: The event loop: ``"asyncio"`` or ``"trio"``.
        concurrency: Calls at a time while the other figures were taken.
        calls: The names of the tools that were called.
        probe_ns: The time of a fixed piece of work on this machine, to compare machines by.
    """

    stages: tuple[StageCost, ...]
    whole: Figure
    no_op: Figure
    failures: Mapping[str, Figure]
    allocations: Allocations
    calls_per_second: float
    in_flight: int
    backend: str
    concurrency: int
    calls: tuple[str, ...]
    probe_ns: float

    @property
    def rest(self) -> float:
        """The cost of the whole beyond its stages, in ns: the pipeline itself, and the pass-throughs."""
        return self.whole.ns - sum(each.figure.ns for each in self.stages if each.figure is not None)

    def __getitem__(self, name: str) -> StageCost:
        """The cost of the stage of that name. Raises KeyError."""
        for each in self.stages:
            if each.name == name:
                return each
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        """All figures, as they are kept; nothing that identifies the machine."""
        return {
            "unit": "ns",
            "stages": [each.as_json() for each in self.stages],
            "whole": self.whole.as_json(),
            "rest_ns": round(self.rest, 1),
            "no_op_middleware": self.no_op.as_json(),
            "failures": [{"kind": kind, **figure.as_json()} for kind, figure in self.failures.items()],
            "allocations": self.allocations.as_json(),
            "calls_per_second": round(self.calls_per_second),
            "in_flight": self.in_flight,
            "backend": self.backend,
            "concurrency": self.concurrency,
            "calls": list(self.calls),
            "probe_ns": round(self.probe_ns),
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "platform": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
        }


def _json_of(figure: Figure | None) -> dict[str, Any]:
    if figure is not None:
        return figure.as_json()
    return {"ns": None, "quartiles": None, "noise_ns": None, "waited_ns": None, "elsewhere_ns": None}
