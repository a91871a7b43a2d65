"""The fate of a call: the text that the model gets, whether the run survives, leaks, and effects."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.peers.functions import SECRET_OF_A_CRASH, SECRET_OF_THE_USER, Ran
from benchmarks.peers.scenarios import Scenario

_SHOWN = 300  # characters that are kept of the text for the model


class Verdict(NamedTuple):
    """The results of the calls of a scenario.

    Args:
        told: The text that the model gets; for many calls, the first one's.
        died: The class of the exception that ended the run; "": it survived.
        right: Whether the answer is the expected success; None: none is expected.
        leaked: Where a secret was found: of an exception in "text" or "trace", of an argument in "trace" or "log". The
            log may hold the exception, because the developer who fixes the tool looks there.
        begun: How often the body of the tool began.
        done: How often it took effect.
        spans: How many were exported.
    """

    told: str
    died: str
    right: bool | None
    leaked: list[str]
    begun: int
    done: int
    spans: int


async def judge(scenario: Scenario, send: Callable[[], Awaitable[Sequence[str]]], spans: Callable[[], str]) -> Verdict:
    """Send the calls once.

    Args:
        scenario: The scenario to judge.
        send: Sends its calls.
        spans: Returns the spans exported since its last call, as JSON, a line for each.
    """
    spans()
    Ran.begun = Ran.done = 0
    told, died = [""], ""
    with _listen() as records:
        try:
            told = list(await send())
        except Exception as exc:  # noqa: BLE001  # how a run dies is what is asked
            died = type(exc).__name__
    exported, text = spans(), "\n".join(told)
    found = {
        "exception in the text": SECRET_OF_A_CRASH in text,
        "exception in the trace": SECRET_OF_A_CRASH in exported,
        "argument in the trace": SECRET_OF_THE_USER in exported,
        "argument in the log": any(SECRET_OF_THE_USER in each for each in records),
    }
    return Verdict(
        told=" ".join(told[0].split())[:_SHOWN],
        died=died,
        right=None if scenario.answer is None else {_bare(each) for each in told} == {scenario.answer},
        leaked=[where for where, leaked in found.items() if leaked],
        begun=Ran.begun,
        done=Ran.done,
        spans=len(exported.splitlines()),
    )


def _bare(text: str) -> str:
    """A result without what a framework puts around it."""
    for opening, closing in (('{"result":', "}"), ("{'result':", "}"), ('"', '"')):
        if text.startswith(opening) and text.endswith(closing):
            text = text[len(opening) : -len(closing)].strip()
    return text


@contextmanager
def _listen() -> Generator[list[str]]:
    """Collect the text of all log records, whatever handlers there are."""
    records: list[str] = []
    factory = logging.getLogRecordFactory()

    def make(*args: Any, **more: Any) -> logging.LogRecord:
        record = factory(*args, **more)
        records.append(record.getMessage())
        if record.exc_info and record.exc_info[0]:
            records.append("".join(traceback.format_exception(*record.exc_info)))
        return record

    logging.setLogRecordFactory(make)
    try:
        yield records
    finally:
        logging.setLogRecordFactory(factory)
