"""``toolcall demo``: a scripted model's calls go through the standard pipeline, for real, and each is shown."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter

import anyio
from rich.console import Console
from rich.table import Table

from middlewares import Trace, standard

from ...call import is_failure
from ...compose.pipeline import Pipeline
from ...messages import render
from . import display
from .display import Played
from .script import ANSWER, ASKED, TURNS
from .tracing import Tracing
from .workspace import PLANTED, tools_over

_LIMIT = 0.3  # seconds for an attempt: one tool hangs, and nobody should wait for it three times for long
_LOGGERS = ("toolcall_pipeline", "opentelemetry")  # the second says why spans could not be sent


def run(*, otlp: str | None, log: Path | None) -> int:
    """Play the conversation. 0: all came out as it should; 1: a call did not, a secret leaked, or spans were lost."""
    console = Console(highlight=False)
    for name in ("fuzz", "process"):  # else the first answer to a wrong name would show the time of this import
        import_module(f"rapidfuzz.{name}")
    began = perf_counter()
    with _developers_log(log) as log_file:
        tracing = Tracing(otlp)
        with tempfile.TemporaryDirectory(prefix="toolcall-demo-") as root:
            tools = tools_over(Path(root))
            pipeline = standard(tools, timeout=_LIMIT).replace("trace", Trace(tracer_provider=tracing.provider))
            _introduce(console, pipeline, [str(offer["name"]) for offer in tools.definitions()])
            played = anyio.run(_play, console, pipeline, tracing)
        took = perf_counter() - began
        _lay_out(console, "model", ANSWER)
        display.summary(console, played)
        good = sum(each.as_expected for each in played)
        console.print(f"{good} of {len(played)} calls came out as they should, in {took:.1f} s.")
        leaked = _say_what_leaked(console, played, log_file)
        tracing.telemetry.shutdown()
        lost = _say_where(console, otlp, tracing.telemetry.sent, played)
    return int(good < len(played) or leaked or lost)


async def _play(console: Console, pipeline: Pipeline, tracing: Tracing) -> list[Played]:
    played: list[Played] = []
    for number, turn in enumerate(TURNS, 1):
        outcome = await pipeline.call(turn.name, turn.arguments, id=f"call_{number}")
        kind = outcome.failure().kind if is_failure(outcome) else "success"
        played.append(Played(turn, kind, render(outcome), tracing.take()))
        note = "the exception and its stack went to the developer's log" if kind == "internal" else ""
        display.call(console, number, played[-1], note)
    return played


def _introduce(console: Console, pipeline: Pipeline, offered: list[str]) -> None:
    console.print("A model at work, with the mistakes that models make", style="bold")
    console.print()
    _lay_out(console, "user", ASKED)
    _lay_out(console, "tools", ", ".join(offered))
    _lay_out(console, "stages", " > ".join(pipeline.stages))
    console.print()


def _lay_out(console: Console, who: str, text: str) -> None:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(style="dim", width=6)
    row.add_column(overflow="fold")
    row.add_row(who, text)
    console.print(row)


def _say_what_leaked(console: Console, played: list[Played], log_file: Path) -> bool:
    """Tell where the key in the crash's text got to; whether that is anywhere but in the log."""
    texts = [each.told for each in played] + [span.to_json() for each in played for span in each.spans]
    if leaks := sum(PLANTED in text for text in texts):
        console.print(f"The key that the crash held LEAKED into {leaks} answers and spans.", style="bold red")
        return True
    console.print("The key that the crash held is in the developer's log and nowhere else:")
    console.print(f"  {log_file}", soft_wrap=True)
    return False


def _say_where(console: Console, otlp: str | None, sent: int, played: list[Played]) -> bool:
    """Tell where the spans went; whether any of them got lost on the way."""
    spans = sum(len(each.spans) for each in played)
    if otlp is None:
        console.print(f"{spans} spans in {len(played)} traces; --otlp http://localhost:4318 sends them to a collector.")
        return False
    if sent == spans:
        console.print(f"{spans} spans in {len(played)} traces went to {otlp}", soft_wrap=True)
        return False
    text = f"Error: {spans - sent} of {spans} spans were not taken by {otlp} (is a collector running there?)"
    Console(stderr=True, highlight=False).print(text, style="red", soft_wrap=True)
    return True


@contextmanager
def _developers_log(path: Path | None) -> Generator[Path]:
    """Send what the library logs to a file, and nowhere else; without a path to a new one, which stays."""
    if path is None:
        with tempfile.NamedTemporaryFile(prefix="toolcall-demo-", suffix=".log", delete=False) as file:
            path = Path(file.name)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield path
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
        handler.close()
