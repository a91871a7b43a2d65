"""``toolcall run``: sets a run up from the command line's options, runs it, and prints how it ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio

from toolcall_pipeline.middlewares import standard

from ...base.setup_error import SetupError
from ...engine.compose.pipeline import Pipeline
from ...executors import Executor, Thread
from ..asker import NOBODY, Asker
from ..loading import check_schemas, find_registry, keep, load_target, word
from ..shared_options import AS_IT_IS, Worded
from ..stdio import redirect_to_stderr, take_stdin, take_stdout
from ..terminal_text import CommandError
from .interruption import exit_without_threads, to_exit_code
from .line_ledger import LineLedger
from .line_runner import LineRunner, choose_executor, default_concurrency
from .progress import RunProgress, measure_file
from .result_rows import MALFORMED
from .run_results import RunResults, open_results

_STDOUT = "-"


def run(
    target: str,
    calls: str,
    output: Path,
    asker: Asker = NOBODY,
    worded: Worded = AS_IT_IS,
    *,
    concurrency: int | None = None,
    timeout: float | None = None,
    attempts: int | None = None,
    executor: str | None = None,
    workers: int | None = None,
    resume: bool = False,
    rerun_unknown: bool = False,
    follow: bool = False,
    journal: Path | None = None,
) -> int:
    """Run a file of calls. The arguments are explained in the command's help; None is the default.

    Returns:
        0: each line has a result. 1: some of them are malformed. 130 or 143: SIGINT or SIGTERM interrupted the run.
    """
    if rerun_unknown and not resume:
        raise CommandError("--rerun-unknown needs --resume")
    try:
        with redirect_to_stderr():
            concurrency = concurrency or default_concurrency(executor, workers)
            chosen = choose_executor(executor, workers, concurrency)
            given = {"timeout": timeout, "attempts": attempts, "executor": executor, "workers": workers}
            pipeline = _build_pipeline(target, chosen, {key: each for key, each in given.items() if each is not None})
            pipeline = keep(word(pipeline, worded), journal)
            with _open_calls(calls) as fd, _open_results(output, resume=resume, follow=follow) as results:
                progress = RunProgress()
                if (registry := find_registry(pipeline)) is not None and not len(registry):
                    progress.print(f"{target} has no tools")
                ledger = None if (path := results.ledger_path) is None else LineLedger(path, results)
                runner = LineRunner(
                    target, asker, pipeline, results, progress, concurrency, chosen, ledger, rerun_unknown
                )
                code = _run_lines(runner, fd, output)
    except KeyboardInterrupt:  # before the first call; later it is caught as a signal
        return to_exit_code(signal.SIGINT)
    exit_without_threads(code)
    return code


def _build_pipeline(target: str, executor: Executor, given: dict[str, Any]) -> Pipeline:
    """The pipeline that the target names, which accepts no options, or the standard one over its registry."""
    loaded = load_target(target)
    if (registry := find_registry(loaded)) is not None:
        check_schemas(registry, target)
    if isinstance(loaded, Pipeline):
        if given:
            raise CommandError(f"{target} is a Pipeline with stages of its own: remove --{' and --'.join(given)}")
        return loaded
    options = {key: given[key] for key in ("timeout", "attempts") if key in given}
    try:
        if isinstance(executor, Thread):  # under its name: as executor= it would be asked for async tools too
            return standard(loaded, executors={executor.name: executor}, **options)
        return standard(loaded, executor=executor, **options)
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from None


@contextmanager
def _open_calls(calls: str) -> Generator[int]:
    with ExitStack() as stack:
        try:
            if calls == "-":
                fd = stack.enter_context(take_stdin())  # a subprocess of a tool must not read the calls
            else:
                fd = os.open(calls, os.O_RDONLY)
                stack.callback(os.close, fd)
        except OSError as exc:
            raise CommandError(f"{calls}: {exc.strerror}") from None
        yield fd


@contextmanager
def _open_results(output: Path, *, resume: bool, follow: bool) -> Generator[RunResults]:
    if str(output) != _STDOUT:
        with open_results(output, resume=resume, follow=follow) as results:
            yield results
        return
    if resume:
        raise CommandError("-o -: --resume needs a regular file")
    try:
        with take_stdout() as fd:
            yield RunResults(output, fd, None, follow=True)
    except OSError as exc:
        raise CommandError(f"-o -: {exc.strerror}") from None


def _run_lines(runner: LineRunner, fd: int, output: Path) -> int:
    began = perf_counter()
    results, progress = runner.results, runner.progress
    with progress.show_bar(measure_file(fd)) as bar:
        interrupted = anyio.run(runner.run_all, fd, bar)
    name = "standard output" if str(output) == _STDOUT else str(output)
    progress.print_summary(results.kinds, name, perf_counter() - began)
    if interrupted is not None:
        progress.print(f"{signal.Signals(interrupted).name}: run the same command with --resume to continue")
        return to_exit_code(interrupted)
    results.check_seen()  # of CALLS that could be read once only
    results.complete = True
    return int(results.kinds[MALFORMED] > 0)
