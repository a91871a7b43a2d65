"""assert_overhead: holds what a stage may cost in a test, as a ratio that holds on any machine, or in µs."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Literal, TypeAlias, get_args
from unittest import SkipTest

import attrs

from ...base.options import check_count, check_number, refuse
from ...base.setup_error import SetupError
from ...engine.call import Call
from ...engine.compose.pipeline import Pipeline
from .figures import Figure
from .measurement import Measurement, Options
from .measuring import Backend, run_measurement

Failing: TypeAlias = Literal["refuse", "skip", "alone"]
_BUILDS = 7
_FEW = 3


@attrs.frozen
class Found:
    """The result of one try."""

    stage: Figure | None  # None: unknown
    no_op: Figure  # of a middleware that does nothing: the unit
    alone: bool = False  # whether the stage was measured by itself

    @property
    def ns(self) -> float:
        """CPU and waits of the stage."""
        assert self.stage is not None
        return self.stage.ns + self.stage.waited_ns

    @property
    def ratio(self) -> float:
        """The same, in units; infinite where noise hides the unit."""
        return self.ns / self.no_op.ns if self.no_op.ns > 0 else inf

    def is_below(self, units: float, us: float) -> bool:
        """Whether it costs less than so many units, and than so many µs."""
        return (units == inf or self.ratio < units) and self.ns < us * 1e3

    def is_clear(self, units: float, us: float) -> bool:
        """Whether the noise cannot change the answer, so that more builds would not."""
        if self.stage is None:
            return True
        if self.no_op.ns <= 0 and units < inf:
            return False
        limits = [(us * 1e3, 0.0)] if us < inf else []
        limits += [(units * self.no_op.ns, units * self.no_op.noise)] if units < inf else []
        return all(abs(self.ns - limit) > self.stage.noise + noise for limit, noise in limits)

    def __str__(self) -> str:
        assert self.stage is not None
        waits = f", {self.stage.waited_ns / 1e3:.2f} µs of waiting" if self.stage.waited_ns else ""
        by_itself = ", measured by itself" if self.alone else ""
        return f"{self.stage.ns / 1e3:.2f} µs of CPU{waits}, and the unit {self.no_op.ns / 1e3:.2f} µs{by_itself}"


def assert_overhead(
    pipeline: Pipeline,
    call: Call | Iterable[Call] | None = None,
    *,
    stage: str,
    below: float | None = None,
    below_us: float | None = None,
    failing: Failing = "refuse",
    tries: int = 3,
    backend: Backend = "asyncio",
) -> Found:
    """Check what a stage adds to a call, CPU and waits together, in units of a middleware that does nothing, or in µs.

    That middleware, ``async def pass_on(call, call_next): return await call_next(call)``, is measured in the same
    pipeline at the same time: about 0.2 µs on a machine of 2024. Bodies of tools do not run, as in `measure`. What was
    found is printed, with the unit.

    Args:
        pipeline: The pipeline.
        call: As for `measure`.
        stage: The name of the stage.
        below: How many times the unit it may cost at most, > 0. Default None: not limited.
        below_us: How many µs it may cost at most, > 0; for a stage that waits for a service. Default None: not limited.
        failing: What becomes of a stage without which the calls end otherwise, as one that decides: it cannot be left
            out. Default ``"refuse"``: a SetupError. ``"skip"``: the test is skipped. ``"alone"``: the stage is measured
            by itself, as a check or around an inside that answers what its inside has answered.
        tries: How often it is measured before it fails, ≥ 1: a cost is there each time, a busy neighbour is not.
            Default 3.
        backend: The event loop. Default ``"asyncio"``.

    Returns:
        What the last try has found: as text the cost, the unit and both in µs.

    Raises:
        AssertionError: It costs more in each try; the text has all figures.
        SetupError: As `measure`; or neither limit is given; or the cost cannot be known, see ``failing``.
        unittest.SkipTest: See ``failing``; pytest knows it.
    """
    _check_options(below, below_us, failing, tries)
    units, us = inf if below is None else below, inf if below_us is None else below_us
    options = Options(builds=_BUILDS, backend=backend, stages=frozenset((stage,)))

    async def look(measurement: Measurement) -> Found:
        full = measurement.bench
        measurement.bench = attrs.evolve(full, builds=_FEW, most=_FEW)
        quick = await take(measurement)
        measurement.bench = full
        return quick if quick.is_clear(units, us) else await take(measurement)

    async def take(measurement: Measurement) -> Found:
        figure, alone = (await measurement.measure_stage(stage)).figure, False
        if figure is None and failing == "alone":
            figure, alone = await measurement.measure_alone(stage), True
        return Found(figure, await measurement.measure_no_op(), alone)

    found: list[Found] = []
    for _ in range(tries):
        found.append(run_measurement("assert_overhead", pipeline, call, options, look))
        if found[-1].stage is None:
            unknown = f"what {stage!r} costs cannot be told: calls end otherwise without it"
            if failing == "skip":
                raise SkipTest(unknown)
            raise SetupError(f'{unknown}; with failing="alone" it is measured by itself, and with "skip" not at all')
        if found[-1].is_below(units, us):
            return found[-1]
    figures = ", ".join(f"{each.ratio:.1f}" for each in found)
    limits = [
        f"{text} allowed"
        for limit, text in ((units, f"below {units:g} is"), (us, f"less than {us:g} µs is"))
        if limit < inf
    ]
    raise AssertionError(
        f"{stage} costs {figures} times a middleware that does nothing, in {tries} tries; "
        f"{' and '.join(limits)}. In the last one: {found[-1]}"
    )


def _check_options(below: float | None, below_us: float | None, failing: str, tries: int) -> None:
    for option, limit in (("below", below), ("below_us", below_us)):
        check_number("assert_overhead", option, limit, above=0, optional=True)
    if below is None and below_us is None:
        refuse("assert_overhead", "below", "a number > 0, or `below_us` one", below)
    if failing not in get_args(Failing):
        refuse("assert_overhead", "failing", '"refuse", "skip" or "alone"', failing)
    check_count("assert_overhead", "tries", tries)
