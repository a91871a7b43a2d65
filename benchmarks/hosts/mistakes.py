"""Seven mistakes and a right call, the tools that they are sent to, and what must become of each with the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import attrs

SECRET = "password=hunter2"  # noqa: S105  # stands in the text of a crash
_SHOWN = 70  # characters of the text for the model


class Tools:
    """The functions of a fresh agent: each run of a mistake gets its own."""

    def __init__(self) -> None:
        self.ran = 0

    def add(self, a: int, b: int) -> int:
        """Add two integers."""
        self.ran += 1
        return a + b

    def count(self, items: list[int]) -> int:
        """Count the items."""
        self.ran += 1
        return len(items)

    def crash(self, a: int) -> int:
        """Fail."""
        self.ran += 1
        raise ValueError(f"{SECRET} at {a}")

    def flaky(self, a: int) -> int:
        """Fail once, as a backend that answers 503."""
        self.ran += 1
        if self.ran == 1:
            raise ConnectionError("503")
        return a


@attrs.frozen
class Mistake:
    """A call as a model writes it, and what the pipeline promises."""

    label: str
    name: str
    arguments: str  # JSON text
    result: str | None  # the text for the model if the call runs; None: it gets an error
    told: str = ""  # a part of the error text


MISTAKES = (
    Mistake("right", "add", '{"a": 1, "b": 2}', "3"),
    Mistake("unknown name", "zzz", "{}", None, "not found"),
    Mistake("near name", "ad", '{"a": 1, "b": 2}', None, "Did you mean: add?"),
    Mistake("JSON text", "count", '{"items": "[1, 2]"}', "2"),
    Mistake("missing parameter", "add", '{"a": 1}', None, "Missing required parameter: b"),
    Mistake("wrong type", "add", '{"a": [1], "b": 2}', None, "must be an integer"),
    Mistake("crash with a secret", "crash", '{"a": 1}', None, "unexpected error"),
    Mistake("503 once", "flaky", '{"a": 7}', "7"),
)


@attrs.frozen
class Told:
    """The result of one call."""

    text: str  # the text for the model; "" if the run died
    died: str = ""  # the class of the exception that ended the run


class Framework(Protocol):
    """A module of this folder."""

    VERSION: str  # of the package
    UNSEEN: frozenset[str]  # labels of mistakes that no public hook of the framework sees

    async def ask(self, mistake: Mistake, tools: Tools, *, behind: bool, times: int = 1, **options: Any) -> str:
        """Let a fake model make one call, with the pipeline or without. Return the text that the model gets.

        Args:
            mistake: The call.
            tools: The functions of the agent.
            behind: Whether the pipeline is there.
            times: How often the call is made.
            **options: Of our adapter.
        """
        ...


async def try_all(ask: Callable[..., Awaitable[str]], *, behind: bool) -> list[Told]:
    """Return the text that the model gets for each mistake."""
    told: list[Told] = []
    for mistake in MISTAKES:
        try:
            told.append(Told(await ask(mistake, Tools(), behind=behind)))
        except Exception as exc:  # noqa: BLE001  # how a run dies is what is asked
            told.append(Told("", type(exc).__name__))
    return told


def find_broken(told: list[Told], unseen: frozenset[str]) -> list[str]:
    """List the promises that were not kept."""
    broken: list[str] = []
    for mistake, got in zip(MISTAKES, told, strict=True):
        right = got.text.strip('"') == mistake.result if mistake.result is not None else mistake.told in got.text
        if got.died:
            broken.append(f"{mistake.label}: the run died of {got.died}")
        elif "hunter2" in got.text:
            broken.append(f"{mistake.label}: the model read a secret")
        elif not right and mistake.label not in unseen:
            broken.append(f"{mistake.label}: the model was told {got.text!r}")
    return broken


def print_table(before: list[Told], after: list[Told]) -> None:
    """Print the texts that the model gets, before and after."""
    for mistake, without, behind in zip(MISTAKES, before, after, strict=True):
        print(f"  {mistake.label:<20} {_show(without):<{_SHOWN + 2}} | {_show(behind)}")


def _show(told: Told) -> str:
    text = f"the run dies: {told.died}" if told.died else " ".join(told.text.split())
    mark = "SECRET " if "hunter2" in told.text else ""
    return mark + (text if len(text) <= _SHOWN - len(mark) else text[: _SHOWN - len(mark) - 1] + "…")


def compare(framework: Any) -> int:
    """Print the table of one framework. Returns how many promises were broken."""
    before = asyncio.run(try_all(framework.ask, behind=False))
    after = asyncio.run(try_all(framework.ask, behind=True))
    print(f"\n{framework.VERSION}: what the model is told, without | with the pipeline")
    print_table(before, after)
    broken = find_broken(after, framework.UNSEEN)
    for each in broken:
        print("  BROKEN", each)
    for label in sorted(framework.UNSEEN):
        print(f"  {label}: no hook of the framework sees it")
    return len(broken)
