"""Repair a conversation that a provider refuses: each call has its answer, right behind it, and each answer its call.

Histories are cut to save tokens, kept while a call was under way, and moved from one provider to another. One that does
not fit fails each request from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import attrs
from returns.result import Failure

from ..base.setup_error import SetupError
from ..engine.call import Call
from ..engine.errors import NotExecuted
from .common import get_field, is_dict, list_items, text_or_empty, to_plain, with_wire
from .replies import Calls
from .sending_back import clean, fit_names, new_id

MISSING = Failure(NotExecuted("the conversation went on before it had an answer"))
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class HistoryChange(NamedTuple):
    """What `repair` changed in a conversation.

    Attributes:
        place: Of the message, in the conversation that was given.
        what: What was done, in words.
    """

    place: int
    what: str


@attrs.define
class Unit:
    """A part of a conversation: a message, or one block of it."""

    kind: Literal["said", "answer", "other"]  # said by the model, an answer to a call, or neither
    index: int  # of its message
    data: Any  # the message, or the block that answers
    calls: list[Call] = attrs.field(factory=list[Call])  # of the model, with their ids as they stand there
    id: str = ""  # of the call that it answers
    name: str = ""  # of the tool that answers, for a provider without ids


SetIds: TypeAlias = Callable[[Any, list[Call]], Any]  # a message, and its calls as they are to stand in it
Answer: TypeAlias = Callable[[Call], Any]  # the answer that a call lacks
SetId: TypeAlias = Callable[[Any, Call], Any]  # an answer, and the call that it is of, as it stands in its message


def match(
    units: Iterable[Unit],
    set_calls: SetIds,
    set_id: SetId,
    answer: Answer,
    *,
    make_id: Callable[[], str] = new_id,
    pattern: re.Pattern[str] | None = _ID,
) -> tuple[list[Unit], list[HistoryChange]]:
    """Put the answers of each call right behind it, in the order of the calls, and make those that are missing.

    Args:
        units: The conversation.
        set_calls: Returns what the model said with these calls in it, as the provider takes them.
        set_id: Returns an answer with the id of this call, and its name where an answer has one.
        answer: Returns an answer for a call that has none.
        make_id: Returns a new id.
        pattern: The ids that the provider takes. None: it has none, or takes any.
    """
    given = list(units)
    changes: list[HistoryChange] = []
    used: set[int] = set()
    taken: set[str] = set()
    made: list[Unit] = []
    for place, unit in enumerate(given):
        if unit.kind == "answer":
            continue
        if unit.kind == "other":
            made.append(unit)
            continue
        found = [_find_answer(given, place, call, used) for call in unit.calls]
        calls = [_with_id(call, taken, make_id, pattern) for call in _with_names(unit.calls)]
        data = set_calls(unit.data, calls)
        answers = [
            Unit("answer", unit.index, answer(call), id=call.id)
            if at is None
            else attrs.evolve(given[at], data=set_id(given[at].data, call), id=call.id)
            for call, at in zip(calls, found, strict=True)
        ]
        changes += _list_changes(given, place, calls, found, answers, is_same=data == unit.data)
        made += [attrs.evolve(unit, data=data, calls=calls), *answers]
    for place, unit in enumerate(given):
        if unit.kind == "answer" and place not in used:
            changes.append(HistoryChange(unit.index, "an answer without its call was left out"))
    for place, unit in enumerate(made):
        if (data := clean(unit.data)) != unit.data:
            changes.append(HistoryChange(unit.index, "half a character is replaced"))
            made[place] = attrs.evolve(unit, data=data)
    return made, sorted(changes, key=lambda change: change.place)


def _list_changes(
    units: list[Unit], place: int, calls: list[Call], found: list[int | None], answers: list[Unit], *, is_same: bool
) -> Iterator[HistoryChange]:
    unit = units[place]
    if not is_same:
        has_ids = [call.id for call in unit.calls] == [call.id for call in calls]
        what = "what the model said is mended" if has_ids else "calls have ids that the provider takes"
        yield HistoryChange(unit.index, what)
    there = [each for each in found if each is not None]
    if there != [*range(place + 1, place + 1 + len(there))]:
        yield HistoryChange(units[there[0]].index, "answers are put right behind their calls, in their order")
    for call, at, answer in zip(calls, found, answers, strict=True):
        if is_same and at is not None and answer.data != units[at].data:
            yield HistoryChange(units[at].index, "an answer has the name of its call")
        if at is None:
            yield HistoryChange(unit.index, f"a call of {call.name} had no answer, and has one: not_executed")


def _find_answer(units: list[Unit], place: int, call: Call, used: set[int]) -> int | None:
    """The place of the first answer of a call: of its id, before another call has that; or without one, in order."""
    for at in range(place + 1, len(units)):
        unit = units[at]
        if any(each.id == call.id for each in unit.calls):
            return None
        fits = unit.id == call.id and (bool(call.id) or unit.name in ("", call.name))
        if unit.kind == "answer" and at not in used and fits:
            used.add(at)
            return at
    return None


def _with_names(calls: list[Call]) -> list[Call]:
    """The calls by names that a provider takes, which their answers have too."""
    names = fit_names(Calls(calls), None, 0)
    return [
        with_wire(attrs.evolve(call, name=name), {**call.wire, "name": name})
        for call, name in zip(calls, names, strict=True)
    ]


def _with_id(call: Call, taken: set[str], make_id: Callable[[], str], pattern: re.Pattern[str] | None) -> Call:
    id_ = text_or_empty(call.id)
    if pattern is not None and (not pattern.fullmatch(id_) or id_ in taken):
        id_ = make_id()
    taken.add(id_)
    return attrs.evolve(call, id=id_)


def list_messages(messages: object) -> list[Any]:
    """The messages of a conversation as plain data; SetupError if it is no list."""
    if not isinstance(messages, (list, tuple)):
        raise SetupError(f"repair takes the list of messages of a request, not a {type(messages).__name__}")
    return [to_plain(each) for each in cast("list[Any]", messages)]


def split_turns(
    messages: list[Any], role: str, key: str, read: Callable[[Any], Call | tuple[str, str] | None]
) -> list[Unit]:
    """The units of a conversation whose answers are blocks of messages.

    Args:
        messages: The messages.
        role: The role of the model.
        key: Where a message has its blocks.
        read: Returns the call that a block is, or the id and the name of the call that it answers; None: neither.
    """
    units: list[Unit] = []
    for index, message in enumerate(messages):
        blocks = list_items(get_field(message, key))
        found = [read(block) for block in blocks]
        if get_field(message, "role") == role and is_dict(message):
            units.append(Unit("said", index, message, [each for each in found if isinstance(each, Call)]))
        elif not any(isinstance(each, tuple) for each in found):
            units.append(Unit("other", index, message))
        else:
            for block, each in zip(blocks, found, strict=True):
                if isinstance(each, tuple):
                    units.append(Unit("answer", index, block, id=each[0], name=each[1]))
                elif units and units[-1].kind == "other" and units[-1].index == index:
                    units[-1].data[key].append(block)
                else:
                    units.append(Unit("other", index, {**message, key: [block]}))
    return units


def join_turns(units: Iterable[Unit], key: str) -> list[dict[str, Any]]:
    """The messages of a provider that takes all answers of a turn as the first blocks of one message of the user.

    What the user says next stands behind them in that message.
    """
    messages: list[dict[str, Any]] = []
    is_open = False  # the last message holds answers
    for unit in units:
        if unit.kind == "answer":
            if is_open:
                messages[-1][key].append(unit.data)
            else:
                messages.append({"role": "user", key: [unit.data]})
            is_open = True
        elif is_open and unit.kind == "other" and unit.data.get("role") == "user":
            said = unit.data.get(key)
            blocks = [{"type": "text", "text": said}] if isinstance(said, str) else list_items(said)
            messages[-1] = {**unit.data, key: [*messages[-1][key], *blocks]}
        else:
            messages.append({**unit.data})
            is_open = False
    return messages
