"""``toolcall demo``: sends the scripted calls through the standard pipeline and checks what becomes of them."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from time import perf_counter

import anyio
from rich.console import Console
from rich.table import Table

from toolcall_pipeline.middlewares import Trace, standard

from ...call import is_failure
from ...compose.pipeline import Pipeline
from ...messages import render
from .demo_tools import PLANTED_KEY, build_tools
from .developer_log import log_to_file
from .display import PlayedCall, print_call, print_summary
from .script import ANSWER, QUESTION, SCRIPT
from .tracing import Tracing

_TIMEOUT = 0.3  # seconds per attempt; one tool hangs, and is tried three times


def run(*, otlp: str | None, log: Path | None) -> int:
    """Play the conversation.

    Args:
        otlp: Where to post the spans as well; None: nowhere.
        log: The file for the developer's log; None for a new temporary one.

    Returns:
        0: every call ended as expected. 1: one did not, the secret leaked, or spans were lost.
    """
    console = Console(highlight=False)
    for name in ("fuzz", "process"):  # now, or the first answer to a wrong name would show the time of this import
        import_module(f"rapidfuzz.{name}")
    began = perf_counter()
    with log_to_file(log) as log_file:
        tracing = Tracing(otlp)
        with tempfile.TemporaryDirectory(prefix="toolcall-demo-") as folder:
            tools = build_tools(Path(folder))
            pipeline = standard(tools, timeout=_TIMEOUT).replace("trace", Trace(tracer_provider=tracing.provider))
            _print_introduction(console, pipeline, [str(each["name"]) for each in tools.definitions()])
            played = anyio.run(_play, console, pipeline, tracing)
        seconds = perf_counter() - began
        _print_labelled(console, "model", ANSWER)
        print_summary(console, played)
        expected = sum(each.as_expected for each in played)
        console.print(f"{expected} of {len(played)} calls ended as expected, in {seconds:.1f} s.")
        leaked = _check_secret(console, played, log_file)
        tracing.telemetry.shutdown()
        lost = _check_export(console, otlp, tracing.telemetry.sent, played)
    return int(expected < len(played) or leaked or lost)


async def _play(console: Console, pipeline: Pipeline, tracing: Tracing) -> list[PlayedCall]:
    played: list[PlayedCall] = []
    for number, scripted in enumerate(SCRIPT, 1):
        outcome = await pipeline.call(scripted.name, scripted.arguments, id=f"call_{number}")
        kind = outcome.failure().kind if is_failure(outcome) else "success"
        played.append(PlayedCall(scripted, kind, render(outcome), tracing.take_spans()))
        note = "the exception with its stack trace is in the developer's log" if kind == "internal" else ""
        print_call(console, number, played[-1], note)
    return played


def _print_introduction(console: Console, pipeline: Pipeline, offered: list[str]) -> None:
    console.print("A conversation full of the mistakes that models make", style="bold")
    console.print()
    _print_labelled(console, "user", QUESTION)
    _print_labelled(console, "tools", ", ".join(offered))
    _print_labelled(console, "stages", " > ".join(pipeline.stages))
    console.print()


def _print_labelled(console: Console, label: str, text: str) -> None:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="dim", width=6)
    row.add_column(overflow="fold")
    row.add_row(label, text)
    console.print(row)


def _check_secret(console: Console, played: list[PlayedCall], log_file: Path) -> bool:
    """Print where the secret of the crash is; True if it is anywhere but in the log."""
    texts = [each.answer for each in played] + [span.to_json() for each in played for span in each.spans]
    if leaks := sum(PLANTED_KEY in text for text in texts):
        console.print(f"The key in the message of the crash LEAKED into {leaks} answers and spans.", style="bold red")
        return True
    console.print("The key in the message of the crash is in the developer's log and nowhere else:")
    console.print(f"  {log_file}", soft_wrap=True)
    return False


def _check_export(console: Console, otlp: str | None, sent: int, played: list[PlayedCall]) -> bool:
    """Print where the spans went; True if some were lost."""
    spans = sum(len(each.spans) for each in played)
    if otlp is None:
        console.print(f"{spans} spans in {len(played)} traces; --otlp http://localhost:4318 sends them to a collector.")
        return False
    if sent == spans:
        console.print(f"{spans} spans in {len(played)} traces went to {otlp}", soft_wrap=True)
        return False
    text = f"Error: {otlp} did not accept {spans - sent} of {spans} spans (is a collector running there?)"
    Console(stderr=True, highlight=False).print(text, style="red", soft_wrap=True)
    return True
