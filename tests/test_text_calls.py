"""Text calls: calls that a model wrote as text are read if that is asked for, and else told in the log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import fake_providers as fake
from support import a_tool
from toolcall_pipeline import Call, SetupError, Success, ToolRegistry, gather_sync
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai
from toolcall_pipeline.adapters.text_calls import read_text_calls
from toolcall_pipeline.adapters.text_calls.forms import FORMS as DECLARED
from toolcall_pipeline.middlewares import standard

ADD = Call("add", '{"a": 1, "b": 2}')
NOW = Call("now", "{}")


def offer(*names: str) -> ToolRegistry:
    """The tools of `adders`, and further ones of these names."""
    tools = fake.adders()
    for name in names:
        tools.register(a_tool(name))
    return tools


SENT = Call("add", '{"a": 1, "b": 2}')


def wide(name: str) -> str:
    """A control token of DeepSeek's."""
    return f"<\uff5c{name.replace('_', chr(0x2581))}\uff5c>"


OBJECT = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
LLAMA = '{"name": "add", "parameters": {"a": 1, "b": 2}}'
FORMS: dict[str, tuple[str, list[Call], str]] = {
    "hermes": (f"<tool_call>\n{OBJECT}\n</tool_call>", [ADD], ""),
    "hermes, twice, among text": (
        f'I add.\n<tool_call>{OBJECT}</tool_call>\n<tool_call>{{"name": "now"}}</tool_call> Wait.',
        [ADD, NOW],
        "I add.\n Wait.",
    ),
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
    "fenced": (f"```json\n{OBJECT}\n```\n", [ADD], ""),
    "fenced, after a thought": (f"<think>Hm.</think>\n```\n{OBJECT}\n```", [ADD], "<think>Hm.</think>"),
    "hermes, with its mark in a text": (
        '<tool_call>{"name": "add", "arguments": {"a": "</tool_call>"}}</tool_call>',
        [Call("add", '{"a": "</tool_call>"}')],
        "",
    ),
    "hermes, with a thought in a text": (
        '<tool_call>{"name": "add", "arguments": {"a": "</think>"}}</tool_call>',
        [Call("add", '{"a": "</think>"}')],
        "",
    ),
    "qwen coder, without its first tag": (
        "I add.\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        [Call("add", {"a": "1"})],
        "I add.\n\n</tool_call>",
    ),
    "qwen coder, two in one": (
        "<tool_call><function=add><parameter=a>1</parameter></function><function=now></function></tool_call>",
        [Call("add", {"a": "1"}), Call("now", "")],
        "",
    ),
    "harmony": (
        '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1, "b": 2}<|call|>',
        [SENT],
        "",
    ),
    "harmony, after its analysis": (
        (
            "<|channel|>analysis<|message|>I add <|call|>.<|end|><|start|>assistant<|channel|>commentary "
            'to=functions.add <|constrain|>json<|message|>{"a": 1, "b": 2}<|call|>'
        ),
        [SENT],
        "<|channel|>analysis<|message|>I add <|call|>.<|end|>",
    ),
    "harmony, the recipient first": (
        '<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1, "b": 2}<|call|>',
        [SENT],
        "",
    ),
    "harmony, broken": (
        '<|channel|>commentary to=functions.add<|message|>{"a": 1,,}<|call|>',
        [Call("add", '{"a": 1,,}')],
        "",
    ),
    "invoke": (
        '<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">2</parameter>\n</invoke>',
        [Call("add", {"a": "1", "b": "2"})],
        "",
    ),
    "minimax, two": (
        (
            '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">x\ny</parameter>\n</invoke>\n'
            '<invoke name="now">\n</invoke>\n</minimax:tool_call>'
        ),
        [Call("add", {"a": "x\ny"}), Call("now", "")],
        "",
    ),
    "deepseek, in tags": (
        (
            '<DSMLfunction_calls><DSMLinvoke name="add"><DSMLparameter name="a" string="false">1'
            "</DSMLparameter></DSMLinvoke></DSMLfunction_calls>"
        ).replace("DSML", "\uff5cDSML\uff5c"),
        [Call("add", {"a": "1"})],
        "",
    ),
    "glm": (
        (
            "I add.\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n"
            "<arg_value>2</arg_value>\n</tool_call>"
        ),
        [Call("add", {"a": "1", "b": "2"})],
        "I add.",
    ),
    "glm, without arguments": ("<tool_call>now\n</tool_call>", [Call("now", "")], ""),
    "kimi": (
        (
            "I add.<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
            '{"a": 1, "b": 2}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}'
            "<|tool_call_end|><|tool_calls_section_end|>"
        ),
        [SENT, Call("now", "{}")],
        "I add.",
    ),
    "deepseek": (
        (
            f'{wide("tool_calls_begin")}{wide("tool_call_begin")}add{wide("tool_sep")}{{"a": 1, "b": 2}}'
            f"{wide('tool_call_end')}{wide('tool_calls_end')}{wide('end_of_sentence')}"
        ),
        [SENT],
        "",
    ),
    "deepseek, fenced": (
        (
            f"{wide('tool_calls_begin')}{wide('tool_call_begin')}function{wide('tool_sep')}add\n```json\n"
            f'{{"a": 1, "b": 2}}\n```{wide("tool_call_end")}\n{wide("tool_call_begin")}function{wide("tool_sep")}now\n'
            f"```json\n{{}}\n```{wide('tool_call_end')}{wide('tool_calls_end')}"
        ),
        [SENT, Call("now", "{}")],
        "",
    ),
    "llama 4": ("<|python_start|>[add(a=1, b=2)]<|python_end|>", [ADD], ""),
    "groq": ('<function=add{"a": 1, "b": 2}</function>', [SENT], ""),
    "groq, closed late": ('<function=add {"a": 1, "b": 2}></function>', [SENT], ""),
    "groq, with an empty list": ('<function=add[]{"a": 1, "b": 2}</function>', [SENT], ""),
    "groq, in brackets": ('<function(add){"a": 1, "b": 2}</function>', [SENT], ""),
    "groq, as an object": (f'{{"tool_calls": [{OBJECT}, {OBJECT}]}}', [ADD, ADD], ""),
    "after a thought that the prompt began": (
        f"I could <tool_call>{OBJECT}</tool_call>.\n</think>\n<tool_call>{OBJECT}</tool_call>",
        [ADD],
        f"I could <tool_call>{OBJECT}</tool_call>.\n</think>",
    ),
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
    found = read_text_calls(text)
    assert (found.calls, found.said) == (calls, rest)
    assert found.seen
    if found.seen not in {"json", "pythonic"}:
        assert read_text_calls(text, forms=[found.seen]) == found
    assert read_text_calls(text, forms=["nothing"]).calls == []
    assert read_text_calls(text, registry=ToolRegistry()).calls == []
    assert [call.name for call in read_text_calls(text, offer("now", "f")).calls] == [call.name for call in calls]


def test_each_form_has_a_text_here() -> None:
    """No reader is without a test."""
    assert {read_text_calls(text).seen for text, _, _ in FORMS.values()} == {
        *(form.name for form in DECLARED),
        "json",
        "pythonic",
    }


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
    f"<tool_call>{OBJECT}<|im_end|>",
    '<tool_call>{"name": "add", "arguments": {"a": 1, ',
    f'<tool_call>{{"name": "add", "arg\n<tool_call>{OBJECT}</tool_call>',
    "<function=add><parameter=a>1</parameter>",
    "<tool_call><function=add><parameter=a>1</parameter></function>",
    '<|channel|>commentary to=functions.add<|message|>{"a": 1}',
    '<minimax:tool_call><invoke name="add"></invoke>',
    '<invoke name="add"><parameter name="a">1</invoke>',
    "<tool_call>add\n<arg_key>a</arg_key><arg_value>1</arg_value>",
    '<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1}',
    f"[TOOL_CALLS][{OBJECT}] and more",
    f"Let me add.\n```json\n{OBJECT}\n```",
    f"```\n<tool_call>{OBJECT}</tool_call>\n```",
    f"<tool_call>{OBJECT}</tool_call></think>Done.",
    f"<think>No.</think><think>I could <tool_call>{OBJECT}</tool_call>",
    f"<|channel|>analysis<|message|><tool_call>{OBJECT}</tool_call><|end|>It is 3.",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_other_text_is_text(text: str) -> None:
    """Data that is no call, and text that only looks like one, has no calls."""
    found = read_text_calls(text)
    assert (found.calls, found.said) == ([], text)


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
    for call in read_text_calls("".join(pieces)).calls:
        assert call.name
        assert isinstance(call.arguments, (str, dict))


SAID = f"<tool_call>{OBJECT}</tool_call>"
MARKUP = [text for text, calls, rest in FORMS.values() if not rest and len(calls) == 1]
# Prose that quotes markup, names it, or thinks about it.
PROSE = [
    "To call a tool, write {} in your answer.",
    "The syntax is {}",
    "For example: {}",
    "The model answers with `{}`.",
    'The model answers with "{}".',
    "The model answers with \u201c{}\u201d, and waits.",
    "The model answers with \u00ab{}\u00bb.",
    "The model answers with '{}'.",
    "Here is one:\n\n```\n{}\n```\nIt is closed.",
    "Here is one:\n\n~~~xml\n{}\n~~~",
    "Here is one:\n```\n{}",
    "> {}\n\nThat is what it said.",
    "It said:\n> {}",
    "Forms:\n- {}\n- others",
    "Forms:\n1. {}\n2. others",
    "Forms:\n\n    {}\n\nAnd others.",
    "| form | text |\n|---|---|\n| one | {} |",
    "{} is how one model calls.",
    "{}, for example, is a call.",
    "Use (e.g. {}) for that.",
    "A call looks like this:\n{}",
    "It would be:\n\n{}\n\nThe server reads that.",
    "<think>I could write {}</think>\nIt is 3.",
    "I could write {}\n</think>\nIt is 3.",
    "<think>I could write\n{}",
    "<pre>{}</pre>",
    "<example>\n{}\n</example>",
    'He said "use\n{}\nthere".',
]


@pytest.mark.parametrize("frame", PROSE)
def test_prose_that_shows_a_call_makes_none(frame: str) -> None:
    """What prose quotes, shows as code or names in a sentence is no call, in any form."""
    for markup in MARKUP:
        text = frame.replace("{}", markup)
        found = read_text_calls(text, offer("now", "f"))
        assert (found.calls, found.said) == ([], text)


@given(st.lists(st.tuples(st.sampled_from(PROSE), st.sampled_from(MARKUP)), min_size=1, max_size=4))
def test_prose_of_several_parts_makes_no_call(parts: list[tuple[str, str]]) -> None:
    """Nor do several such texts, one after the other: an open fence or thought hides what follows."""
    text = "\n\n".join(frame.replace("{}", markup) for frame, markup in parts)
    assert read_text_calls(text).calls == []


@pytest.mark.long
def test_ten_thousand_texts_of_prose_make_no_call() -> None:
    """The same for all pairs of frames and many of markups."""
    dice = random.Random(48)
    for _ in range(10_000):
        parts = [(dice.choice(PROSE), dice.choice(MARKUP)) for _ in range(dice.randint(1, 3))]
        text = "\n\n".join(frame.replace("{}", markup) for frame, markup in parts)
        assert read_text_calls(text).calls == [], text


WIRES: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "chat": (openai.calls, lambda text: fake.completion(text=text)),
    "chunks": (openai.calls, lambda text: list(fake.chat_chunks(fake.completion(text=text)))),
    "response": (openai.calls, lambda text: fake.response(text=text)),
    "events": (openai.calls, lambda text: list(fake.response_events(fake.response(text=text)))),
    "text": (openai.calls, lambda text: text),
    "anthropic": (anthropic.calls, lambda text: fake.message(text=text)),
    "anthropic events": (anthropic.calls, lambda text: list(fake.message_events(fake.message(text=text)))),
    "mistral": (mistral.calls, lambda text: fake.completion(text=text)),
    "ollama": (ollama.calls, lambda text: {"message": {"role": "assistant", "content": text}, "done": True}),
    "gemini": (gemini.calls, lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}}]}),
    "bedrock": (
        bedrock.calls,
        lambda text: {
            "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
            "stopReason": "end_turn",
        },
    ),
}


@pytest.mark.parametrize(("read", "wire"), WIRES.values(), ids=WIRES)
def test_each_form_is_read_from_each_wire(read: Any, wire: Any, caplog: Any) -> None:
    """With ``text=`` the calls are read, whole or streamed; without, there are none, and one warning says how."""
    for text, calls, said in FORMS.values():
        reply = wire(text)
        assert read(reply) == []
        (record,) = caplog.records
        assert (record.levelname, "text=True" in record.getMessage()) == ("WARNING", True)
        assert "add" not in record.getMessage()
        caplog.clear()
        for option in (True, "auto"):
            found = read(reply, text=option)
            assert [(call.name, call.arguments) for call in found] == [(call.name, call.arguments) for call in calls]
            assert (found.text, found.error) == (said, None)
        assert caplog.records == []


def test_some_forms_may_be_asked_for(caplog: Any) -> None:
    """A list names forms or models, in any style; another form is a warning, and a name that there is not an error."""
    assert [evolve(call, reply="") for call in openai.calls(SAID, text=["Harmony", "qwen"])] == [ADD]
    assert [call.name for call in openai.calls(LLAMA, text="llama")] == ["add"]
    assert caplog.records == []
    assert openai.calls(SAID, text=["minimax", "GLM-4.5", "qwen3_coder"]) == []
    (record,) = caplog.records
    assert "in the form of hermes: calls(reply, text=True) reads it" in record.getMessage()
    odd: Any
    for odd in ("qwn", ["hermes", "qwn"], [], 5, {"hermes": True}):
        with pytest.raises(SetupError, match="text"):
            openai.calls(fake.completion(("c", "now", "{}")), text=odd)


UNREAD = {
    "Granite": f"<|tool_call|>[{OBJECT}]",
    "Phi": f"<|tool_call|>[{OBJECT}]<|/tool_call|>",
    "LFM2": "<|tool_call_start|>[add(a=1)]<|tool_call_end|>",
    "Gemma": "```tool_code\nadd(a=1)\n```",
    "ReAct": 'Thought: I add.\nAction: add\nAction Input: {"a": 1}',
}


@pytest.mark.parametrize(("name", "text"), UNREAD.items(), ids=UNREAD)
@pytest.mark.parametrize("option", [False, True])
def test_a_form_without_a_reader_is_named(name: str, text: str, option: bool, caplog: Any) -> None:
    """Nothing reads it, and one warning in the log names it."""
    found = openai.calls(text, text=option)
    assert (found, found.text) == ([], text)
    (record,) = caplog.records
    assert f"in the form of {name}: no reader" in record.getMessage()


@pytest.mark.parametrize(
    "text",
    [
        f"{SAID} is what I write.",
        SAID.replace("</tool_call>", ""),
        SAID.replace("add", "sub"),
        f"Let me add.\n```json\n{OBJECT}\n```",
    ],
    ids=range(4),
)
def test_a_form_that_makes_no_call_is_told(text: str, caplog: Any) -> None:
    """A call that is not closed, or of a tool that is not offered, is a warning; a sentence about one is none."""
    found = openai.calls(text, fake.adders(), text=True)
    assert (found, found.text) == ([], text)
    assert len(caplog.records) == (0 if "what I write" in text else 1)


def test_a_tool_that_a_view_leaves_out_is_not_offered() -> None:
    """What counts is what the caller's registry shows: an alias and a provider's name count, a closed tool too."""
    tools = offer("now")
    assert openai.calls(SAID, tools.view({"now"}), text=True) == []
    tools.disable("add")
    assert [call.name for call in openai.calls(SAID, tools, text=True)] == ["add"]


FAILED = {
    "a function": '<function=add{"a": 1, "b": 2}</function>',
    "a function with parameters": "<function=add>\n<parameter=a>1</parameter>\n<parameter=b>2</parameter>\n</function>",
    "an object": OBJECT,
    "a list": f"[{LLAMA}]",
}


@pytest.mark.parametrize("text", FAILED.values(), ids=FAILED)
async def test_a_failed_generation_is_read(text: str, caplog: Any) -> None:
    """Groq's error holds what the model wrote: with ``text=`` it is calls in place of the error."""
    tools = fake.adders()
    error = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    for reply in ({"error": {**error, "failed_generation": text}}, {**error, "failed_generation": text}):
        found = openai.calls(reply, tools, text=True)
        assert found.error is None
        assert [await standard(tools)(call) for call in found] == [Success(3)]
        caplog.clear()
        unread = openai.calls(reply, tools)
        assert unread == []
        assert unread.error is not None
        assert unread.error.code == "tool_use_failed"
        assert ["text=True" in record.getMessage() for record in caplog.records] == [True, False]
    broken = openai.calls({"error": {**error, "failed_generation": "Hm."}}, tools, text=True)
    assert (broken, broken.error is None) == ([], False)


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
        "```\na" * 39_000,
        '<tool_call>{"name": "f", "arguments": {"a": "' * 4_000,
        "<tool_call>[" * 16_000,
        "<tool_call>{" * 16_000 + "</tool_call>",
        "<tool_call>f\n<arg_key>a</arg_key><arg_value>" * 4_000,
        '<invoke name="f"><parameter name="a">' * 5_000,
        "<|channel|>commentary to=f<|message|>{" * 5_000,
        "[TOOL_CALLS]f[ARGS]{" * 10_000,
        "<|python_tag|>[" * 13_000,
        "to=functions.f" * 14_000,
        "<think>" * 28_000,
        "<think></think>" * 13_000,
        "</think>" * 25_000,
        "`<tool_call>{" * 15_000,
        "<tool_call>" + " " * 199_000,
        ("<tool_call>" + " " * 1_000) * 190,
        "Action: " * 25_000,
        "\n" * 199_000,
        "'" * 199_000,
    ],
    ids=range(25),
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
    "harmony": '<|channel|>commentary to=functions.pay<|message|>{"amount": 5, "to": "Ann"}<|call|>',
    "invoke": (
        '<minimax:tool_call><invoke name="pay"><parameter name="amount">5</parameter>'
        '<parameter name="to">Ann</parameter>'
        "</invoke></minimax:tool_call>"
    ),
    "glm": (
        "<tool_call>pay\n<arg_key>amount</arg_key><arg_value>5</arg_value><arg_key>to</arg_key><arg_value>Ann"
        "</arg_value></tool_call>"
    ),
    "kimi": (
        '<|tool_call_begin|>functions.pay:0<|tool_call_argument_begin|>{"amount": 5, "to": "Ann"}<|tool_call_end|>'
    ),
    "deepseek": f'{wide("tool_call_begin")}pay{wide("tool_sep")}{{"amount": 5, "to": "Ann"}}{wide("tool_call_end")}',
    "groq": '<function=pay{"amount": 5, "to": "Ann"}</function>',
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
    assert read_text_calls(text).calls == [Call("write", {"text": "\n<parameter=x>\n"})]
