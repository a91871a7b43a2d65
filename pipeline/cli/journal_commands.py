"""``toolcall report``, ``explain``, ``replay`` and ``improve``: what a journal says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..base.setup_error import SetupError
from ..engine.compose.pipeline import Pipeline
from ..engine.report.json_form import Form
from ..journal import (
    JournalError,
    JournalFile,
    Proposal,
    Replay,
    Summary,
    make_patch,
    read_forms,
    read_lines,
    summarise,
)
from ..journal import explain as explain_form
from ..journal import improve as propose
from ..journal import replay as replay_forms
from ..journal.page import write_page
from ..journal.recovery import Recoveries, Share
from ..journal.regression_test import write_test
from ..journal.summary import Tally, by_calls
from ..messages.text import format_count, replace_surrogates
from ..middlewares import standard
from ..privacy import neutralise
from .loading import load_target
from .stdio import redirect_to_stderr
from .terminal_text import CommandError, make_console

_MOST_ROWS = 20  # of one table
_MOST_CHANGES = 5  # examples of one tool
_SHORT = 60
_LONGEST = 20_000  # characters of a paragraph


def report(journal: Path, *, as_json: bool, html: Path | None, jsonl: Path | None) -> None:
    """Print the figures of a journal, or write them."""
    try:
        forms, dropped = read_forms(journal)
        if jsonl is not None:
            with _open_output(jsonl) as output:
                for form in forms:
                    output.write(json.dumps(form) + "\n")
            if html is None and not as_json:
                return
            forms, dropped = read_forms(journal)
        summary = summarise(forms, dropped)
    except JournalError as exc:
        raise CommandError(str(exc)) from None
    if html is not None:
        with _open_output(html) as output:
            output.write(write_page(summary, journal.name))
    if as_json:
        print(json.dumps(summary.as_json()))
    elif html is None:
        print_summary(_make_wide_console(), summary)


def explain(journal: Path, call_id: str, *, as_json: bool) -> None:
    """Print what happened to a call."""
    try:
        found, talks = _find(journal, call_id)
    except JournalError as exc:
        raise CommandError(str(exc)) from None
    if not found:
        raise CommandError(f"{journal}: there is no call {neutralise(call_id, limit=_SHORT)}")
    if as_json:
        told = [{"call": form, "explained": explain_form(form, talk)} for form, talk in zip(found, talks, strict=True)]
        print(json.dumps(told))
        return
    if len(found) > 1:
        print(f"{format_count(len(found), 'call')} have this id.\n")
    for form, talk in zip(found, talks, strict=True):
        for paragraph in explain_form(form, talk):
            print(_clean(paragraph, keep_lines=True))
        print()


def replay(journal: Path, target: str, *, as_json: bool, test: Path | None, run_reads: bool) -> int:
    """Print what recorded calls come to in a pipeline.

    Returns:
        0: to the same. 1: some to something else.
    """
    try:
        forms, _ = read_forms(journal)
        with redirect_to_stderr():
            pipeline = _load(target)
            found = anyio.run(partial(replay_forms, pipeline, forms, run_reads=run_reads))
        if test is not None:
            forms, _ = read_forms(journal)
            with _open_output(test) as output:
                output.write(write_test(forms, found, target))
    except JournalError as exc:
        raise CommandError(str(exc)) from None
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from None
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        print_changes(_make_wide_console(), found)
    return int(found.changed > 0)


def improve(journal: Path, target: str, *, as_json: bool, at_least: int) -> None:
    """Print what a journal proposes for the tools of a pipeline."""
    try:
        forms, _ = read_forms(journal)
        with redirect_to_stderr():
            pipeline = _load(target)
            found = anyio.run(partial(propose, pipeline, forms, at_least=at_least))
            tools = {tool.name: tool for registry in pipeline.registries for tool in registry}
            patches = [make_patch(each, tools[each.tool]) for each in found]
    except JournalError as exc:
        raise CommandError(str(exc)) from None
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from None
    if as_json:
        print(json.dumps([{**each.as_json(), "patch": patch} for each, patch in zip(found, patches, strict=True)]))
        return
    print(f"{format_count(len(found), 'proposal')}; nothing is applied")
    for each, patch in list(zip(found, patches, strict=True))[:_MOST_ROWS]:
        print()
        for line in _describe_proposal(each):
            print(_clean(line))
        print(_clean(patch, keep_lines=True), end="")
    if len(found) > _MOST_ROWS:
        print(f"\nand {len(found) - _MOST_ROWS:,} more: --json prints all")


def _describe_proposal(each: Proposal) -> Iterator[str]:
    yield f"{each.tool}: {each.why}: {each.calls} calls"
    if each.recovery is not None:
        yield f"  the second attempt mended {each.recovery.at_2}, the second or third {each.recovery.by_3}"
    if each.trial is None:
        yield "  not tried: a record does not say what the model would have done"
    else:
        saved, broken = each.trial.saved, each.trial.broken
        yield f"  replayed: it would have saved {saved.part:,} of {format_count(saved.of, 'failed call')}"
        yield f"  and broken {broken.part:,} of {broken.of:,} that succeeded"
    if each.caution:
        yield f"  before you apply it: {each.caution}"


def _load(target: str) -> Pipeline:
    loaded = load_target(target)
    return loaded if isinstance(loaded, Pipeline) else standard(loaded)


def _find(journal: Path, call_id: str) -> tuple[list[Form], list[list[Form]]]:
    """The calls with an id, each with all calls of its conversation."""
    if journal.suffix == ".jsonl":
        forms = list(read_lines(journal))
        found = [form for form in forms if form["id"] == call_id]
        talks = [[each for each in forms if _key(each) == _key(form)] for form in found]
        return found, talks
    with JournalFile.read(journal) as file:
        found = file.find(call_id)
        return found, [file.list_conversation(form) for form in found]


def _key(form: Form) -> tuple[str, str]:
    return form["principal"], form["conversation"]


def _clean(text: str, *, limit: int | None = _LONGEST, keep_lines: bool = False) -> str:
    """A text of a model, a tool or a file, as a terminal can show it without harm."""
    return replace_surrogates(neutralise(text, limit=limit, keep_lines=keep_lines))


def _make_wide_console() -> Console:
    console = make_console()
    if not console.is_terminal:
        console.width = 120
    return console


def _open_output(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8", errors="replace")
    except OSError as exc:
        raise CommandError(f"{path}: {exc.strerror}") from None


def print_summary(console: Console, found: Summary) -> None:
    """Print the figures as tables."""
    total = found.total
    share = f" ({total.failures / total.calls:.1%})" if total.calls else ""
    line = f"{format_count(total.calls, 'call')}, {total.failures:,} failed{share}, {total.cancelled:,} cancelled"
    if found.replayed:
        line += f", {found.replayed:,} got the outcome of an earlier one"
    console.print(line)
    if found.dropped:
        console.print(f"{format_count(found.dropped, 'call')} more were dropped: the journal could not follow")
    _print_groups(console, "tool", found.tools)
    if len(found.principals) > 1:
        _print_groups(console, "principal", found.principals)
    if len(found.wordings) > 1:
        _print_groups(console, "wording", found.wordings)
    _print_rows(
        console,
        ("failures by kind", "failures", "of all calls"),
        [(kind, f"{count:,}", f"{count / total.calls:.1%}") for kind, count in total.kinds.most_common()],
    )
    _print_rows(
        console,
        ("fault", "failures", "of all calls"),
        [(fault, f"{count:,}", f"{count / total.calls:.1%}") for fault, count in total.faults.most_common()],
    )
    _print_rows(
        console,
        ("the body ran", "calls", "succeeded"),
        [(f"{count} times", f"{calls:,}", f"{good:,}") for count, (calls, good) in sorted(found.attempts.items())],
    )
    steps = {step: sum(each[step] for each in found.next_steps.values()) for step in _list_steps(found)}
    _print_rows(
        console,
        ("after a failure the model", "times"),
        [(step, f"{count:,}") for step, count in sorted(steps.items(), key=lambda each: -each[1])],
    )
    _print_recovery(console, found.recovery)
    _print_rows(
        console,
        (f"repairs ({found.repaired[0]:,} calls, {found.repaired[1]:,} succeeded)", "calls", "succeeded"),
        [(rule, f"{calls:,}", str(Share(good, calls))) for rule, (calls, good) in found.list_repairs()[:_MOST_ROWS]],
    )
    _print_rows(
        console,
        (f"retries ({found.retried[0]:,} calls, {found.retried[1]:,} succeeded, {found.waited:.3g} s waited)", "times"),
        [(reason, f"{count:,}") for reason, count in found.decisions.most_common(_MOST_ROWS)],
    )
    stages = sorted(found.stages.items(), key=lambda each: -each[1].total)[:_MOST_ROWS]
    rows: list[Any] = []
    for name, stage in stages:
        times = _list_ms(stage.seconds, "p50", "p99")
        rows.append((name, f"{stage.runs:,}", f"{stage.decided:,}", f"{stage.total:.3g}", *times))
    _print_rows(
        console,
        ("stage", "runs", "made failures", "seconds in all", "p50 ms", "p99 ms"),
        rows,
    )


def _print_recovery(console: Console, found: Recoveries) -> None:
    total = found.total
    if not total.chains:
        return
    console.print(
        f"\nFirst failures that the second attempt mended: {total.at_2}; the second or third: {total.by_3}\n"
        f"attempts with the same arguments: {Share(total.repeats, total.attempts)}; "
        f"{total.seconds:,.3g} s until what was mended, {total.told:,} characters of texts told "
        "(95 % intervals by Wilson)"
    )
    rows = [
        (f"{kind}, {tool}, {wording}", str(each.at_2), str(each.by_3), f"{each.repeats:,}", f"{each.told:,}")
        for (kind, tool, wording), each in found.list_groups()
    ]
    titles = ("first failure, tool, wording", "mended at attempt 2", "by attempt 3", "repeats", "characters told")
    _print_rows(console, titles, rows[:_MOST_ROWS])


def _list_steps(found: Summary) -> set[str]:
    return {step for steps in found.next_steps.values() for step in steps}


def _list_ms(seconds: list[float], *names: str) -> list[str]:
    from ..journal.summary import find_percentiles

    found = find_percentiles(seconds)
    return [f"{found[name]:.3g}" if found else "" for name in names]


def _print_groups(console: Console, title: str, groups: dict[str, Tally]) -> None:
    rows: list[tuple[str, ...]] = []
    for name, tally in by_calls(groups)[:_MOST_ROWS]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in tally.kinds.most_common(3))
        share = f"{tally.failures / tally.calls:.1%}"
        times = _list_ms(tally.seconds, "p50", "p90", "p99")
        rows.append((name or "(none)", f"{tally.calls:,}", f"{tally.failures:,}", share, *times, kinds))
    if len(groups) > _MOST_ROWS:
        rows.append((f"and {len(groups) - _MOST_ROWS:,} more", *[""] * 7))
    _print_rows(console, (title, "calls", "failed", "share", "p50 ms", "p90", "p99", "most often"), rows)


def _print_rows(console: Console, titles: tuple[str, ...], rows: list[Any]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for place, title in enumerate(titles):
        is_text = place == 0 or title == "most often"
        table.add_column(title, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        table.add_row(*(Text(_clean(cell)) for cell in row))
    console.print()
    console.print(table)


def print_changes(console: Console, found: Replay) -> None:
    """Print what changes, by tool."""
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in found.not_replayable.most_common())
    hindered = f" (not: {left_out})" if left_out else ""
    console.print(f"{found.replayed:,} of {format_count(found.calls, 'call')} replayed{hindered}")
    console.print(f"{found.changed:,} come to something else, {found.unmatched:,} would run and have no record")
    if found.left_out:
        console.print(f"left out: the stages {', '.join(found.left_out)}")
    for name, tool in sorted(found.tools.items(), key=lambda each: (-each[1].changes.total(), each[0])):
        if not tool.changes and not tool.texts:
            continue
        changed = f"{tool.changes.total():,} of {format_count(tool.calls, 'call')} changed"
        texts = f", {tool.texts:,} failures are worded otherwise" if tool.texts else ""
        console.print(Text(f"\n{_clean(name)}: {changed}{texts}"))
        for (before, after), count in tool.changes.most_common():
            console.print(Text(f"  {count:>7,}  {_clean(before)} → {_clean(after)}"))
        for each in tool.examples[:_MOST_CHANGES]:
            told = _clean(each.told, limit=_SHORT * 2)
            console.print(Text(f"           {_clean(each.id, limit=_SHORT)}: {told}"), overflow="ellipsis")
