"""Faults put in on purpose, each a cause of lost promises that was found before: the simulation has to see them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unicodedata import normalize
from unittest import mock
from weakref import WeakKeyDictionary

import attrs

from simulation.processes import ARRIVAL, SharedStore
from toolcall_pipeline import Call, Pipeline, Tool
from toolcall_pipeline.once import Conversations, digests, intents, undecided
from toolcall_pipeline.once.ledger_records import Records
from toolcall_pipeline.stores import Change


def _coarsen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _coarsen(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return normalize("NFC", str(value)).strip() if isinstance(value, (str, int)) else value


@contextmanager
def coarse_equality() -> Generator[None]:
    """Texts are equal without blanks at their ends, and numbers to their texts, also where something is answered."""
    real = digests.write_strict

    def write(value: object) -> str:
        return real(_coarsen(value))

    with (
        mock.patch.object(digests, "write_strict", write),
        mock.patch.object(intents, "write_strict", write),
        mock.patch.object(intents, "_DEFAULTS", WeakKeyDictionary[Any, Any]()),  # forms that are kept
    ):
        yield


@contextmanager
def forgotten_use() -> Generator[None]:
    """An approval does not note that it was used: only the ledger knows."""
    real = SharedStore.write

    def write(store: SharedStore, changes: tuple[Change, ...]) -> int | None:
        return real(store, tuple(_forget(each) for each in changes))

    with mock.patch.object(SharedStore, "write", write):
        yield


def _forget(change: Change) -> Change:
    if change.value is None or not change.key.startswith("ap/"):
        return change
    row: dict[str, Any] = json.loads(change.value)
    return change._replace(value=json.dumps({**row, "state": _UNUSED.get(row["state"], row["state"])}).encode())


_UNUSED = {"begun": "approved", "ended": "approved"}


@contextmanager
def memory_by_object() -> Generator[None]:
    """What is undecided is remembered by the Tool object, so a new list of the server forgets it."""
    real = undecided.name_of

    def name_of(tool: Tool[..., Any]) -> str:
        return f"{real(tool)} {id(tool)}"

    with mock.patch.object(undecided, "name_of", name_of):
        yield


@contextmanager
def one_cap() -> Generator[None]:
    """One cap for all principals: what is undecided of one pushes out what is of another, without a word."""
    real = Conversations.add

    def add(memory: Conversations, call: Any, lost: Any) -> Any:
        held = real(memory, call, lost)
        every = [(place, each) for place in memory.held.values() for each in place.lost.values()]
        for place, each in every[:-1]:
            place.decide(each)
        return held

    with mock.patch.object(Conversations, "add", add):
        yield


@contextmanager
def identity_by_session() -> Generator[None]:
    """The conversation of a call is its session, of which a client makes a new one for each request."""
    real = Pipeline.__call__

    async def call_in_session(pipeline: Pipeline, call: Call) -> Any:
        return await real(pipeline, attrs.evolve(call, conversation=f"{call.conversation} {id(ARRIVAL.get())}"))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Pipeline, "__call__", call_in_session))
        yield


@contextmanager
def decided_unread() -> Generator[None]:
    """What ``verify=`` says of a lost delivery is written also where another process has begun it since it was read."""
    real = Records.decide

    async def decide(records: Records, *given: Any, version: int | None = None, **more: Any) -> bool:
        del version
        return await real(records, *given, **more)

    with mock.patch.object(Records, "decide", decide):
        yield


FAULTS: dict[str, Callable[[], Any]] = {
    "an equality that is too coarse": coarse_equality,
    "an approval that forgets its use": forgotten_use,
    "memory by the Tool object": memory_by_object,
    "one cap for all": one_cap,
    "identity by session": identity_by_session,
    "a decision about what has begun again": decided_unread,
}
