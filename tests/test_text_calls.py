"""Text calls: calls that a model wrote as text are read if that is asked for, and else told in the log."""

from __future__ import annotations

import time
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import fake_providers as fake
from toolcall_pipeline import Call, Success, ToolRegistry, gather_sync
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.adapters.text_calls import looks_like_calls, read_text_calls
from toolcall_pipeline.middlewares import standard

ADD = Call("add", '{"a": 1, "b": 2}')
NOW = Call("now", "{}")
OBJECT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
LLAMA = '{"name": "add", "parameters": {"a": 1, "b": 2}}'
FORMS: dict[str, tuple[str, list[Call], str]] = {
    "hermes": (f"<tool_call>\n{OBJECT}\n</tool_call>", [ADD], ""),
    "hermes, twice, among text": (
        f'I add.\n<tool_call>{OBJECT}</tool_call>\n<tool_call>{{"name": "now"}}</tool_call> Wait.',
        [ADD, NOW],
        "I add.\n\n Wait.",
    ),
    "hermes, not closed": (f"<tool_call>{OBJECT}<|im_end|>", [ADD], ""),
    "hermes, arguments as text": (
        '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
        [Call("add", '{"a": 1}')],
        "",
    ),
    "qwen coder": (
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>2</parameter>\n</function>\n</tool_call>",
        [Call("add", {"a": "1", "b": "2"})],
        "",
    ),
    "llama, the whole text": (LLAMA, [ADD], ""),
    "llama, python tag": (f"<|python_tag|>{LLAMA}<|eom_id|>", [ADD], ""),
    "llama, two": (f"<|python_tag|>{LLAMA}; {LLAMA}", [ADD, ADD], ""),
    "llama, function tag": ('<function=add>{"a": 1, "b": 2}</function>', [ADD], ""),
    "llama, in Python": ("[add(a=1, b=2), now()]", [ADD, NOW], ""),
    "llama, dotted": ("[fs.read(path='a')]", [Call("fs.read", '{"path": "a"}')], ""),
    "mistral": (f"[TOOL_CALLS][{OBJECT}]</s>", [ADD], ""),
    "mistral, named": (
        'I add.[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}[TOOL_CALLS]now[CALL_ID]abc123def[ARGS]{}</s>',
        [ADD, NOW],
        "I add.",
    ),
    "mistral, named without a mark for arguments": ('[TOOL_CALLS]add{"a": 1, "b": 2}', [ADD], ""),
    "after a thought": (f"<think>I add.</think>\n<tool_call>{OBJECT}</tool_call>", [ADD], "<think>I add.</think>"),
    "hermes, broken": (
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2,}}\n</tool_call>',
        [Call("add", '{"a": 1, "b": 2,}')],
        "",
    ),
    "hermes, cut off": (
        '<tool_call>{"name": "add", "arguments": {"a": 1, ',
        [Call("add", '{"a": 1,', finish_reason="length")],
        "",
    ),
    "hermes, in Python": (
        "<tool_call>{'name': 'add', 'arguments': {'a': 1, 'b': True}}</tool_call>",
        [Call("add", "{'a': 1, 'b': True}")],
        "",
    ),
    "hermes, double braces": (
        '<tool_call>{{"name": "add", "arguments": {"a": 1}}}</tool_call>',
        [Call("add", '{"a": 1}}')],
        "",
    ),
    "fenced, with the line ends of Windows": (f"```json\r\n{OBJECT}\r\n```", [ADD], ""),
    "fenced": (f"Let me add.\n```json\n{OBJECT}\n```", [ADD], "Let me add."),
    "fenced list": (f"```\n[{OBJECT}, {OBJECT}]\n```", [ADD, ADD], ""),
    "of OpenAI": (f'{{"type": "function", "function": {OBJECT}}}', [ADD], ""),
    "numbers as they were written": (
        '{"name": "f", "arguments": {"v": 3.10, "w": 1e400, "s": "3.10"}}',
        [Call("f", '{"v": 3.10, "w": 1e400, "s": "3.10"}')],
        "",
    ),
}


@pytest.mark.parametrize(("text", "calls", "rest"), [pytest.param(*row, id=name) for name, row in FORMS.items()])
def test_each_form_is_read(text: str, calls: list[Call], rest: str) -> None:
    """The calls come in order, with arguments as they were written, and the text around them stays text."""
    assert read_text_calls(text) == (calls, rest)
    assert looks_like_calls(text)


TEXTS = [
    "Hello.",
    "",
    '{"name": "Ann", "age": 7}',
    '{"name": "Ann"}',
    '```json\n{"a": 1}\n```',
    '[{"name": "add", "arguments": {}}, 5]',
    '{"name": "add", "arguments": {"a": 1}} and more',
    '{"name": 5, "arguments": {}}',
    '{"name": "add", "arguments": [1]}',
    "<tool_call>add</tool_call>",
    "[1, 2]",
    "[add(1)]",
    "[add(**x)]",
    "[add(a=b)]",
    "[(lambda: 1)()]",
    "[" * 5000 + "add()" + "]" * 5000,
    f"<think>I could say <tool_call>{OBJECT}</tool_call></think> It is 3.",
    f"<think>I could say <tool_call>{OBJECT}</tool_call>",
    "[TOOL_CALLS]add[ARGS]{",
    "[TOOL_CALLS]add[ARGS]" + "[" * 5000,
    "<tool_call>{'name': 'add', 'arguments': 5}</tool_call>",
    "<tool_call>" + "[" * 100_000,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_other_text_is_text(text: str) -> None:
    """Data that is no call, and text that only looks like one, has no calls."""
    assert read_text_calls(text) == ([], text)


PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "</function>",
    "```json\n",
    "```",
    "[f(a=1)]",
    OBJECT,
    "{",
    "]",
]


@given(st.lists(st.sampled_from([*PIECES, "<|python_tag|>", "[TOOL_CALLS]"]) | st.text(max_size=5), max_size=12))
def test_it_never_raises(pieces: list[str]) -> None:
    """Whatever the text is, each call has a name and arguments that a pipeline judges."""
    for call in read_text_calls("".join(pieces))[0]:
        assert call.name
        assert isinstance(call.arguments, (str, dict))


SAID = f"<tool_call>{OBJECT}</tool_call>"
REPLIES: list[Any] = [
    pytest.param(openai.calls, fake.completion(text=SAID), id="chat"),
    pytest.param(openai.calls, fake.chat_chunks(fake.completion(text=SAID)), id="chunks"),
    pytest.param(openai.calls, fake.response(text=SAID), id="response"),
    pytest.param(openai.calls, fake.response_events(fake.response(text=SAID)), id="events"),
    pytest.param(openai.calls, SAID, id="text"),
    pytest.param(anthropic.calls, fake.message(text=SAID), id="anthropic"),
    pytest.param(anthropic.calls, fake.message_events(fake.message(text=SAID)), id="anthropic-events"),
]


@pytest.mark.parametrize(("read", "reply"), REPLIES)
def test_it_is_asked_for(read: Any, reply: Any, caplog: Any) -> None:
    """With ``text=True`` the calls are read; without, there are none, and one warning says how to read them."""
    reply = reply if type(reply) in (dict, str) else list(reply)
    assert read(reply) == []
    (record,) = caplog.records
    assert (record.levelname, "text=True" in record.getMessage()) == ("WARNING", True)
    assert "add" not in caplog.text.replace("adds", "")
    caplog.clear()
    assert [evolve(call, reply="") for call in read(reply, text=True)] == [ADD]
    assert read(reply, text=True).text == ""
    assert caplog.records == []


def test_the_provider_s_own_calls_come_first(caplog: Any) -> None:
    """A reply that has calls keeps its text as it is."""
    reply = fake.completion(("c", "now", "{}"), text=SAID)
    found = openai.calls(reply, text=True)
    assert (found, found.text) == ([Call("now", "{}", "c", finish_reason="tool_calls", reply=reply["id"])], SAID)
    assert caplog.records == []


async def test_a_call_as_text_runs() -> None:
    """A call that was written as text is resolved, validated and run as any other."""
    tools = fake.adders()
    (call,) = openai.calls(SAID, tools, text=True)
    outcome = await standard(tools)(call)
    assert outcome == Success(3)


@pytest.mark.parametrize(
    "text",
    [
        "<function=f>" + "<parameter=a>" * 14_000,
        "<function=f><parameter=a>" * 7_000,
        "<tool_call><function=f>" + "<parameter=a>\n" * 12_000,
        '{"name":"f","arguments":{}}\n' * 7_000,
        "<function=" * 19_000,
        "```\n" * 48_000,
    ],
    ids=["parameters", "functions", "tagged", "objects", "names", "fences"],
)
def test_no_text_holds_the_loop(text: str) -> None:
    """Time grows with the length of the text, and not with its square: parameters without an end took 9 seconds."""
    best = 9.0
    for _ in range(3):
        began = time.thread_time()
        read_text_calls(text)
        best = min(best, time.thread_time() - began)
    assert best < 1


CUT = {
    "hermes": '<tool_call>\n{"name": "pay", "arguments": {"amount": 5, "to": "Ann"}}\n</tool_call>',
    "qwen coder": (
        "<tool_call>\n<function=pay>\n<parameter=amount>\n5\n</parameter>\n<parameter=to>\nAnn\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    "function": "<function=pay><parameter=amount>5</parameter><parameter=to>Ann</parameter></function>",
    "no end of a parameter": "<function=pay><parameter=to>Ann</parameter><parameter=amount>5</function>",
    "llama": '<function=pay>{"amount": 5, "to": "Ann"}</function>',
    "mistral": '[TOOL_CALLS][{"name": "pay", "arguments": {"amount": 5, "to": "Ann"}}]',
    "mistral, named": '[TOOL_CALLS]pay[ARGS]{"amount": 5, "to": "Ann"}',
    "hermes, broken": "<tool_call>{'name': 'pay', 'arguments': {\"amount\": 5, \"to\": \"Ann\"}}</tool_call>",
    "python": "[pay(amount=5, to='Ann')]",
    "fenced": '```json\n{"name": "pay", "arguments": {"amount": 5, "to": "Ann"}}\n```',
}


@pytest.mark.parametrize("text", CUT.values(), ids=CUT)
def test_a_text_that_is_cut_makes_no_wrong_call(text: str) -> None:
    """Wherever it breaks off, a call runs with all of its arguments or not at all."""
    paid: list[Any] = []
    tools = ToolRegistry()

    @tools.tool
    def pay(amount: int = 1, to: str = "nobody") -> None:
        paid.append((amount, to))

    run = standard(tools)
    for end in range(len(text) + 1):
        gather_sync(run, openai.calls([{"choices": [{"delta": {"content": text[:end]}}]}], text=True))
    assert set(paid) <= {(5, "Ann")}


def test_a_parameter_holds_the_beginning_of_another() -> None:
    """Of the text of a template only the end of a parameter ends it, and one line end at each of its ends is layout."""
    text = "<function=write><parameter=text>\n\n<parameter=x>\n\n</parameter></function>"
    assert read_text_calls(text)[0] == [Call("write", {"text": "\n<parameter=x>\n"})]
