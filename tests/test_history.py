"""Histories that are cut, mixed up or moved: repaired ones have what the provider wants, and whole ones stay."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from toolcall_pipeline import SetupError
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai

TYPES: dict[str, Any] = {
    "chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
    "anthropic": TypeAdapter(list[MessageParam]),
}
Json: TypeAlias = dict[str, Any]
Make: TypeAlias = Callable[[str], Json]


# --- Whole histories: a user asks, the model calls, each call is answered, the model answers ---
def chat(turns: list[list[str]]) -> list[Json]:
    """Of OpenAI's chat completions, by the ids of the calls in each turn."""
    made: list[Json] = []
    for ids in turns:
        calls: list[Json] = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids
        ]
        made += [{"role": "user", "content": "Do."}, {"role": "assistant", "content": None, "tool_calls": calls}]
        made += [{"role": "tool", "tool_call_id": each, "content": f"done {each}"} for each in ids]
        made.append({"role": "assistant", "content": "Done."})
    return made


def responses(turns: list[list[str]]) -> list[Json]:
    """Of the Responses API."""
    made: list[Json] = []
    for ids in turns:
        made += [{"role": "user", "content": "Do."}, {"type": "reasoning", "id": "rs_1", "summary": []}]
        made += [{"type": "function_call", "call_id": each, "name": "f", "arguments": "{}"} for each in ids]
        made += [{"type": "function_call_output", "call_id": each, "output": f"done {each}"} for each in ids]
        made.append({"role": "assistant", "content": "Done."})
    return made


def turns_of(ask: Make, answer: Make, role: str, key: str, text: Make) -> Any:
    def make(turns: list[list[str]]) -> list[Json]:
        made: list[Json] = []
        for ids in turns:
            made += [{"role": "user", key: [text("Do.")]}, {"role": role, key: [*map(ask, ids)]}]
            made += [{"role": "user", key: [*map(answer, ids)]}, {"role": role, key: [text("Done.")]}]
        return made

    return make


messages = turns_of(
    lambda id_: {"type": "tool_use", "id": id_, "name": "f", "input": {}},
    lambda id_: {"type": "tool_result", "tool_use_id": id_, "content": f"done {id_}"},
    "assistant",
    "content",
    lambda text: {"type": "text", "text": text},
)
converse = turns_of(
    lambda id_: {"toolUse": {"toolUseId": id_, "name": "f", "input": {}}},
    lambda id_: {"toolResult": {"toolUseId": id_, "content": [{"text": f"done {id_}"}]}},
    "assistant",
    "content",
    lambda text: {"text": text},
)
contents = turns_of(
    lambda id_: {"function_call": {"id": id_, "name": "f", "args": {}}},
    lambda id_: {"function_response": {"id": id_, "name": "f", "response": {"output": f"done {id_}"}}},
    "model",
    "parts",
    lambda text: {"text": text},
)


def local(turns: list[list[str]]) -> list[Json]:
    """Of Ollama, which has no ids: the answers are told apart by their order."""
    made: list[Json] = []
    for ids in turns:
        calls: list[Json] = [{"function": {"name": "f", "arguments": {}}} for _ in ids]
        made += [{"role": "user", "content": "Do."}, {"role": "assistant", "content": "", "tool_calls": calls}]
        made += [{"role": "tool", "tool_name": "f", "content": f"done {each}"} for each in ids]
        made.append({"role": "assistant", "content": "Done."})
    return made


FORMS: dict[str, Any] = {
    "chat": (chat, openai, {}),
    "responses": (responses, openai, {"api": "responses"}),
    "mistral": (chat, mistral, {}),
    "anthropic": (messages, anthropic, {}),
    "bedrock": (converse, bedrock, {}),
    "gemini": (contents, gemini, {}),
    "ollama": (local, ollama, {}),
}
TURNS: Any = st.lists(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True), min_size=1, max_size=3
)


def list_parts(history: list[Json]) -> list[tuple[str, str]]:
    """What stands in a history, in order: calls and answers with their ids, and anything else."""
    parts: list[tuple[str, str]] = []
    for each in history:
        key = "parts" if "parts" in each else "content"
        blocks: list[Any] = each[key] if isinstance(each.get(key), list) else [each]
        for block in blocks:
            asked = block.get("tool_calls") or [block.get("toolUse") or block.get("function_call") or block]
            answer = block.get("toolResult") or block.get("function_response") or block
            if block.get("type") in ("tool_use", "function_call") or asked[0] is not block:
                parts += [("call", one.get("id") or one.get("call_id") or one.get("toolUseId") or "") for one in asked]
            elif (
                block.get("role") == "tool"
                or block.get("type") in ("tool_result", "function_call_output")
                or answer is not block
            ):
                keys = ("tool_use_id", "toolUseId", "tool_call_id", "call_id", "id")
                parts.append(("answer", next((answer[one] for one in keys if one in answer), "")))
            else:
                parts.append(("other", ""))
    return parts


def refuse_gaps(history: list[Json]) -> None:
    """Each call is answered right behind the calls of its turn, and nothing else is answered."""
    waiting: list[str] = []
    is_answered = False
    for kind, id_ in list_parts(history):
        if kind == "call":
            assert not (waiting and is_answered)
            waiting.append(id_)
            is_answered = False
        elif kind == "answer":
            assert waiting
            assert waiting.pop(0) == id_
            is_answered = True
        else:
            assert not waiting
    assert not waiting


def damage(history: list[Json], data: Any) -> list[Json]:
    """The history after one to three messages of it were dropped, moved or repeated, or its beginning was cut off."""
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(history) - 1)) if history else 0
        what = data.draw(st.sampled_from(["drop", "cut", "move", "again"]))
        if not history:
            break
        if what == "drop":
            del history[place]
        elif what == "cut":
            history = history[place:]
        elif what == "again":
            history.insert(place, copy.deepcopy(history[place]))
        else:
            history.append(history.pop(place))
    return history


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(TURNS)
def test_a_whole_history_stays(form: str, turns: list[list[str]]) -> None:
    """Nothing is changed in what the provider takes, ids that came again in a later turn aside."""
    make, adapter, options = FORMS[form]
    ids = [f"{each}{place:08}" for place, turn in enumerate(turns) for each in turn]
    every = iter(ids)
    history = make([[next(every) for _ in turn] for turn in turns])
    found, changes = adapter.repair(history, **options)
    assert (found, changes) == (history, [])
    refuse_gaps(found)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(TURNS, st.data())
def test_a_damaged_history_is_repaired(form: str, turns: list[list[str]], data: Any) -> None:
    """Whatever was cut, repeated or moved: each call has one answer, in place, by the SDKs' types, and it is said."""
    make, adapter, options = FORMS[form]
    history = damage(make(turns), data)
    before = json.dumps(history)
    found, _ = adapter.repair(history, **options)
    assert json.dumps(history) == before
    refuse_gaps(found)
    if form in TYPES:
        TYPES[form].validate_python(found)
    again, changes = adapter.repair(found, **options)
    assert (again, changes) == (found, [])


def test_what_was_changed_is_said() -> None:
    """A call without an answer, an answer without its call, and answers in another order, each at its place."""
    history = chat([["a", "b"]])
    history = [{"role": "tool", "tool_call_id": "x", "content": "?"}, *history[:2], history[3]]
    found, changes = openai.repair(history)
    assert changes == [
        (0, "an answer without its call was left out"),
        (2, "a call of f had no answer, and has one: not_executed"),
    ]
    assert [each["role"] for each in found] == ["user", "assistant", "tool", "tool"]
    assert found[2]["content"] == "Error: Not executed: the conversation went on before it had an answer."
    assert found[3] == history[3]


def test_ids_that_a_provider_does_not_take() -> None:
    """A history of another provider gets ids that this one takes, calls and answers alike."""
    found, changes = mistral.repair(chat([["call_0123456789"]]))
    (id_,) = [each["id"] for message in found for each in message.get("tool_calls", ())]
    assert len(id_) == 9
    assert id_ == next(each["tool_call_id"] for each in found if each["role"] == "tool")
    assert [each.what for each in changes] == ["calls have ids that the provider takes"]


ODD_NAMES: list[Any] = [None, "", 5, "a b", "é", "x\ud83d", "a" * 80, "crm.find", "9lives"]


def by_name(history: Any) -> list[tuple[str, Any]]:
    """The calls and the answers of a history of a provider that matches them by their names."""
    blocks = [block for each in history for block in each.get("parts", [each])]
    found: list[tuple[str, Any]] = []
    for each in blocks:
        asked = each.get("tool_calls") or ([{"function": each["function_call"]}] if "function_call" in each else [])
        found += [("call", one["function"]["name"]) for one in asked]
        answer = each.get("function_response", each)
        if answer is not each or each.get("role") == "tool":
            found.append(("answer", answer.get("tool_name") or answer.get("name")))
    return found


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
@pytest.mark.parametrize("form", ["gemini", "mistral", "ollama"])
def test_an_answer_has_the_name_of_its_call(form: str, name: Any, is_answered: bool) -> None:
    """Where a name is made one that the provider takes, its answer has it too: it is found by that again."""
    make, adapter, _ = FORMS[form]
    history = make([["abcdefgh1"]])[:3]
    place = history[1].get("tool_calls") or history[1]["parts"]
    place[0].get("function", place[0].get("function_call"))["name"] = name
    answer = history[2].get("parts", [{"function_response": history[2]}])[0]["function_response"]
    answer["tool_name" if form == "ollama" else "name"] = name
    found, _ = adapter.repair(history if is_answered else history[:2])
    (_, asked), (_, answered) = by_name(found)
    assert answered == asked or (is_answered and not answered)  # some have none
    assert adapter.repair(found) == (found, [])


@pytest.mark.parametrize("odd", [None, "find", 5, {}, {"function": None}, {"function": "find"}], ids=repr)
def test_a_call_that_is_none_is_made_one(odd: Any) -> None:
    """A history of Ollama is repaired whatever stands among its calls."""
    history: list[Json] = [{"role": "assistant", "content": "", "tool_calls": [odd]}]
    found, changes = ollama.repair(history)
    assert found[0]["tool_calls"] == [{"function": {"name": "unknown", "arguments": {}}}]
    assert changes
    assert ollama.repair(found) == (found, [])


def test_half_a_character_in_a_history() -> None:
    """It would fail the request, whoever wrote it."""
    history: Any = [{"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": ""}]
    found, changes = openai.repair(history)
    json.dumps(found, ensure_ascii=False).encode()
    assert len(changes) == 1


@pytest.mark.parametrize("adapter", [openai, anthropic, gemini, bedrock, mistral, ollama])
def test_what_is_no_history(adapter: Any) -> None:
    """It is a mistake of a programmer."""
    with pytest.raises(SetupError, match="list of messages"):
        adapter.repair("Hello.")
