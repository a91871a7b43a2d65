"""assert_overhead: holds what a stage may cost in a test, as a ratio, so that it holds on any machine."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import attrs

from ...base.options import check_count, check_number
from ...base.setup_error import SetupError
from ...engine.call import Call
from ...engine.compose.pipeline import Pipeline
from .figures import Figure
from .measurement import Measurement, Options
from .measuring import Backend, run_measurement

_BUILDS = 7
_FEW = 3


@attrs.frozen
class Found:
    """The result of one try."""

    stage: Figure | None
    no_op: Figure

    @property
    def ratio(self) -> float:
        """CPU and waits of the stage, in units; infinite where noise hides the unit."""
        assert self.stage is not None
        return (self.stage.ns + self.stage.waited_ns) / self.no_op.ns if self.no_op.ns > 0 else inf

    def is_clear(self, below: float) -> bool:
        """Whether the noise cannot change the answer, so that more builds would not."""
        if self.stage is None:
            return True
        if self.no_op.ns <= 0:
            return False
        gap = self.stage.ns + self.stage.waited_ns - below * self.no_op.ns
        return abs(gap) > self.stage.noise + below * self.no_op.noise


def assert_overhead(
    pipeline: Pipeline,
    call: Call | Iterable[Call] | None = None,
    *,
    stage: str,
    below: float,
    tries: int = 3,
    backend: Backend = "asyncio",
) -> None:
    """Check what a stage adds to a call, CPU and waits together, in units of a middleware that does nothing.

    That middleware, ``async def pass_on(call, call_next): return await call_next(call)``, is measured in the same
    pipeline at the same time: about 0.2 µs on a machine of 2024. Bodies of tools do not run, as in `measure`.

    Args:
        pipeline: The pipeline.
        call: As for `measure`.
        stage: The name of the stage.
        below: How many times the unit it may cost at most, > 0.
        tries: How often it is measured before it fails, ≥ 1: a cost is there each time, a busy neighbour is not.
            Default 3.
        backend: The event loop. Default ``"asyncio"``.

    Raises:
        AssertionError: It costs more in each try; the text has all figures.
        SetupError: As `measure`; or calls end otherwise without the stage, so that its cost cannot be known.
    """
    check_number("assert_overhead", "below", below, above=0)
    check_count("assert_overhead", "tries", tries)
    options = Options(builds=_BUILDS, backend=backend, stages=frozenset((stage,)))

    async def look(measurement: Measurement) -> Found:
        full = measurement.bench
        measurement.bench = attrs.evolve(full, builds=_FEW, most=_FEW)
        quick = await take(measurement)
        measurement.bench = full
        return quick if quick.is_clear(below) else await take(measurement)

    async def take(measurement: Measurement) -> Found:
        return Found((await measurement.measure_stage(stage)).figure, await measurement.measure_no_op())

    found: list[Found] = []
    for _ in range(tries):
        found.append(run_measurement("assert_overhead", pipeline, call, options, look))
        if found[-1].stage is None:
            raise SetupError(f"what {stage!r} costs cannot be told: calls end otherwise without it")
        if found[-1].ratio < below:
            return
    figures = ", ".join(f"{each.ratio:.1f}" for each in found)
    last = found[-1]
    assert last.stage is not None
    raise AssertionError(
        f"{stage} costs {figures} times a middleware that does nothing, in {tries} tries; below {below:g} is allowed. "
        f"In the last one: {last.stage.ns / 1e3:.2f} µs of CPU, {last.stage.waited_ns / 1e3:.2f} µs of waiting, "
        f"and the unit {last.no_op.ns / 1e3:.2f} µs"
    )
