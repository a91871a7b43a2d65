"""A stage by itself: it is given the calls that it gets in its pipeline, and an inside that answers as its own did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle, islice
from typing import Any, TypeAlias

import attrs

from ...base.setup_error import SetupError
from ...engine.call import Outcome
from ...engine.compose import Handler
from ...engine.compose.pipeline import Pipeline
from ...engine.compose.stage import Stage
from .ablation import Samples
from .slices import Batch

Inside: TypeAlias = Callable[[Any], Awaitable[Outcome]]


@attrs.frozen
class StageRun:
    """A call as a stage gets it."""

    run: Callable[..., Any]
    call: Any
    inside: Inside | None  # answers as its inside did; None: it is a check


async def record_runs(pipeline: Pipeline, name: str, samples: Samples) -> Sequence[StageRun]:
    """Run each call once, and return what that stage was given; SetupError if it is no stage that a call reaches."""
    stage = next(each for each in pipeline.entries if each.name == name) if name in pipeline.stages else None
    if stage is None or stage.role not in ("check", "wrap"):
        raise SetupError(f"{name!r} cannot be measured by itself: it is neither a check nor a middleware")
    runs: list[StageRun] = []
    recorder = (_record_check if stage.role == "check" else _record_middleware)(stage, runs)
    recorder.placement, recorder.registry = stage.placement, getattr(stage.obj, "registry", None)
    recorded = Stage(name, stage.role, recorder, recorder)
    whole = Pipeline(tuple(recorded if each is stage else each for each in pipeline.entries))
    for call in samples.calls:
        await whole(call)
    if not runs:
        raise SetupError(f"{name!r} cannot be measured by itself: no call reaches it")
    return runs


def _record_check(stage: Stage, runs: list[StageRun]) -> Any:
    def check(call: Any) -> Any:
        runs.append(StageRun(stage.run, call.under(None, None), None))
        return stage.run(call)

    check.__annotations__["call"], check.__annotations__["return"] = stage.phases()
    return check


def _record_middleware(stage: Stage, runs: list[StageRun]) -> Any:
    async def middleware(call: Any, call_next: Handler[Any]) -> Outcome:
        answers: list[Outcome] = []

        async def keep(inner: Any) -> Outcome:
            answers.append(await call_next(inner))
            return answers[-1]

        outcome: Outcome = await stage.run(call, keep)
        answer = (answers or [outcome])[-1]

        async def inside(_: Any) -> Outcome:
            return answer

        runs.append(StageRun(stage.run, call.under(None, None), inside))
        return outcome

    return middleware


def make_alone(runs: Sequence[StageRun]) -> tuple[Batch, Batch]:
    """The runs in turn with the stage, and without it."""
    turn, again = cycle(runs), cycle(runs)

    async def whole(times: int) -> None:
        for each in islice(turn, times):
            if each.inside is None:
                each.run(each.call)
            else:
                await each.run(each.call, each.inside)

    async def less(times: int) -> None:
        for each in islice(again, times):
            if each.inside is not None:
                await each.inside(each.call)

    return whole, less
