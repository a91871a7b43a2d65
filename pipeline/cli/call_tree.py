"""A report as a tree for the terminal: the call, its stages and attempts, how long each took, and why it ended so."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..privacy import neutralise
from ..report import Attempt, CallReport, StageRecord, kind_of
from ..telemetry.span_tree import ASCII, UNICODE


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
