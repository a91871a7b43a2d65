"""measure: says what a pipeline and each of its stages cost."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Literal, TypeAlias, TypeVar

import anyio

from ...base.options import check_count, check_number, check_type
from ...base.setup_error import SetupError
from ...engine.call import Call
from ...engine.compose.pipeline import Pipeline
from .costs import Overhead
from .measurement import ASKED, Measurement, Options

T = TypeVar("T")
Backend: TypeAlias = Literal["asyncio", "trio"]


def measure(
    pipeline: Pipeline,
    call: Call | Iterable[Call] | None = None,
    *,
    result: object = ASKED,
    run_tools: bool = False,
    concurrency: int = 1,
    backend: Backend = "asyncio",
    stages: Iterable[str] | None = None,
    failures: bool = True,
    builds: int = 15,
    seconds: float = 10.0,
) -> Overhead:
    """Measure what a pipeline and each of its stages cost, in an event loop of its own.

    Calls are made many thousand times, so the bodies of all tools are replaced meanwhile: whatever their effect, none
    of them runs. Only a tool whose effect is ``"read"`` runs first, once for each call, to learn what it returns. The
    stages are the real ones: what a middleware of yours writes or sends, it writes or sends for each call.

    Args:
        pipeline: The pipeline. It is opened first if it has to be.
        call: A call that succeeds, or several that take turns. Default None: an example for the first of its tools for
            which there is one.
        result: The return value of the tools meanwhile. Default: the real one for a tool that only reads, else None.
        run_tools: Run the real bodies, each time, with all their effects. Default False.
        concurrency: Calls at the same time, ≥ 1. Default 1.
        backend: The event loop, ``"asyncio"`` or ``"trio"``. Default ``"asyncio"``.
        stages: Names of the stages to measure. Default None: all.
        failures: Whether to measure failing calls, too. Default True.
        builds: How often the pipelines are built anew for each figure, ≥ 3: where objects lie in memory moves the cost
            of a call by 1 to 2 %. A figure with much noise gets up to four times as many. Default 15.
        seconds: After that time a figure gets no further build, once it has three; > 0. Default 10.

    Returns:
        The figures. All log records are off while they are taken.

    Raises:
        SetupError: An option is out of its range; the stage does not exist; the call fails, or ends otherwise when it
            is repeated, because a stage limits or counts calls.
    """
    only = None if stages is None else frozenset(stages)
    options = Options(builds, seconds, concurrency, backend, only, run_tools, result)
    return run_measurement("measure", pipeline, call, options, lambda each: each.measure_all(failures=failures))


def run_measurement(
    owner: str,
    pipeline: Pipeline,
    call: Call | Iterable[Call] | None,
    options: Options,
    work: Callable[[Measurement], Awaitable[T]],
    bind: Callable[[Pipeline], AbstractAsyncContextManager[Pipeline]] = nullcontext,
) -> T:
    """Do that work in an event loop of its own, with the pipeline open, its tools replaced, and all logs off."""
    check_type(owner, "pipeline", pipeline, Pipeline)
    check_count(owner, "concurrency", options.concurrency)
    check_count(owner, "builds", options.builds, 3)
    check_number(owner, "seconds", options.seconds, above=0, unit="seconds")
    for name in sorted((options.stages or frozenset()) - set(pipeline.stages)):
        raise SetupError(f"there is no stage {name!r}; there are: {', '.join(pipeline.stages)}")
    calls = [call] if isinstance(call, Call) else None if call is None else list(call)
    if calls is not None and not calls:
        raise SetupError(f"{owner}: `call` must hold one call at least")

    async def run() -> T:
        async with bind(pipeline) as bound, bound, Measurement.begin(bound, calls, options) as measurement:
            return await work(measurement)

    with _without_logs():
        return anyio.run(run, backend=options.backend)


@contextmanager
def _without_logs() -> Generator[None]:
    """A failure is logged, and ten thousand failures would fill the log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
