"""``toolcall call``: makes one call, prints the text for the model, and how the call went."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

import anyio
from returns.result import Failure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..engine.call import Call
from ..engine.compose.pipeline import Pipeline
from ..engine.errors import Crashed
from ..engine.report import Attempt, CallReport, StageRecord, kind_of
from ..privacy import make_mask, neutralise
from ..telemetry.logs import log_failure
from ..telemetry.span_tree import ASCII, UNICODE
from .asker import Asker
from .loading import keep, load_pipeline, open_pipeline, word
from .run.interruption import exit_without_threads, to_exit_code
from .run.result_rows import build_result, encode_row
from .shared_options import Worded
from .stdio import redirect_to_stderr


def call(
    target: str,
    name: str,
    arguments: str | None,
    asker: Asker,
    worded: Worded,
    *,
    as_json: bool,
    trace: bool,
    timeout: float | None,
    journal: Path | None = None,
) -> int:
    """Make one call. The parameters have the meaning that the command's help gives."""
    with redirect_to_stderr():
        pipeline = keep(word(load_pipeline(target), worded), journal)
        if arguments == "-":
            arguments = sys.stdin.read()
        try:
            report = anyio.run(_run, pipeline, target, asker, Call(name, arguments, id="call_1", timeout=timeout))
        except KeyboardInterrupt:
            return to_exit_code(signal.SIGINT)
        if trace:
            print_tree(Console(stderr=True, highlight=False, markup=False, emoji=False), report)
    result = build_result(report)
    if (stdout := cast("TextIO | None", sys.stdout)) is not None:  # it is None where the shell closed it: `>&-`
        if as_json:
            stdout.buffer.write(encode_row({"name": name, **result}))
        else:
            told = str(result["told"])
            print(neutralise(told, keep_lines=True) if stdout.isatty() else told)
        stdout.flush()
    code = int(not result["ok"])
    exit_without_threads(code)
    return code


async def _run(pipeline: Pipeline, target: str, asker: Asker, call: Call) -> CallReport:
    async with asker.bind(pipeline) as bound, open_pipeline(bound, target):
        return await _report(bound, call)


async def _report(pipeline: Pipeline, call: Call) -> CallReport:
    try:
        return await pipeline.report(call)
    except GeneratorExit as exc:  # no pipeline may catch it
        error = Crashed(exc)
        tool = pipeline.find(call.name)
        log_failure(call, tool, error, make_mask(call, tool))
        return CallReport(pipeline.redact(call), tool, outcome=Failure(error))


def print_tree(console: Console, report: CallReport) -> None:
    """Print a line for the call, for each stage, and for each attempt with the stages inside of it."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    tool = "no tool" if report.tool is None else report.tool.name
    repairs = ", ".join(f"{each.path or 'arguments'}: {each.rule}" for each in report.repairs)
    why = "  ".join(each for each in (kind_of(report.outcome), repairs and f"repaired {repairs}") if each)
    _add_row(table, "", tool, report.seconds, why, failed=report.error is not None)
    branch, line, last_branch, blank = ASCII if console.options.ascii_only else UNICODE
    children = _list_children(report)
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        guide = last_branch if is_last else branch
        if isinstance(child, StageRecord):
            _add_stage(table, guide, child)
            continue
        wait = f"after {child.wait:.3g} s" if child.wait else ""
        why = "  ".join(each for each in (child.verdict, child.executor, wait) if each)
        seconds = (child.end - child.start) / 1e9
        _add_row(table, guide, f"attempt {child.number}", seconds, why, failed=child.verdict is not None)
        inner = [each for each in report.stages if each.attempt == child.number]
        for place, each in enumerate(inner, 1):
            _add_stage(table, (blank if is_last else line) + (last_branch if place == len(inner) else branch), each)
    console.print(table)


def _list_children(report: CallReport) -> list[StageRecord | Attempt]:
    """The attempts, and the stages that stand outside of them, in the order in which they began."""

    def find() -> Iterator[StageRecord | Attempt]:
        yield from (each for each in report.stages if each.attempt == 0)
        yield from report.attempts

    return sorted(find(), key=lambda each: each.start)


def _add_stage(table: Table, guide: str, stage: StageRecord) -> None:
    why = "  ".join(each for each in (stage.verdict, stage.note) if each)
    _add_row(table, guide, stage.name, stage.seconds, why, failed=stage.verdict is not None)


def _add_row(table: Table, guide: str, name: str, seconds: float, why: str, *, failed: bool) -> None:
    style = "red" if failed else ""
    label = Text.assemble((guide, "dim"), (neutralise(name), style))
    table.add_row(label, Text(f"{seconds * 1000:.2f} ms", style), Text(neutralise(why), style or "cyan"))
