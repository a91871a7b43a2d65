"""The forms in which models write calls as text: a name, the first mark, and one reader each.

A reader takes a text and where the first mark stands, and returns the calls up to the last mark of the form, or None:
without that last mark a call is not closed, and is no call.

Sources: the chat templates of the models, and the parsers of vLLM (tool_parsers), SGLang (function_call) and llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from ...engine.call import Call
from .bodies import read_broken, read_json, read_json_at, read_pairs, read_python, write_arguments

Found: TypeAlias = tuple[list[Call], int]  # the calls, and where the form ends
Reader: TypeAlias = Callable[[str, int], Found | None]

_NAME = r"[^<>\s\"'={}\[\]()|,;\uff5c]{1,200}"
_TAGS = r"(?:\w{1,20}:|\uff5cDSML\uff5c)?"  # in front of the names of tags: MiniMax's and DeepSeek's
_BLANK = re.compile(r"\s*")


@attrs.frozen
class Form:
    """A form of calls in a text."""

    name: str  # as in `text=["hermes"]`
    first: str  # how its first mark begins: where a text is looked at
    opening: re.Pattern[str]  # its first mark, and what must follow on it
    read: Reader
    inline: bool = False  # control tokens may follow on a word; a tag begins a line, or follows a sentence
    also: tuple[str, ...] = ()  # further names, of models that write it


def _skip(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return place if blank is None else blank.end()


def _close(text: str, place: int, mark: str | re.Pattern[str]) -> int | None:
    """Where a last mark ends that stands behind blanks only; None if it does not stand there."""
    place = _skip(text, place)
    if isinstance(mark, str):
        return place + len(mark) if text.startswith(mark, place) else None
    found = mark.match(text, place)
    return None if found is None else found.end()


# --- Hermes, Qwen -----------------------------------------------------------------------------------------------------

_HERMES = re.compile(r"<tool_call>\s*(?=[\[{])")
_END_OF_CALL: Final = "</tool_call>"


def _read_hermes(text: str, start: int) -> Found | None:
    begin = start + len("<tool_call>")
    place, end = _skip(text, begin), None
    while end is None and (found := read_json_at(text, place)) is not None:
        end, place = _close(text, found[1], _END_OF_CALL), _skip(text, found[1])
    if end is None:  # its JSON is broken, or text with a last mark is in it
        stop = text.find(_END_OF_CALL, begin)
        if stop < 0 or text.find("<tool_call>", begin, stop) >= 0:
            return None
        end = stop + len(_END_OF_CALL)
    body = text[begin : end - len(_END_OF_CALL)]
    return (read_json(body, tagged=True) or read_broken(body)), end


# --- Qwen3-Coder, Llama 3 ---------------------------------------------------------------------------------------------

_FUNCTION = re.compile(rf"(?:(<(?:seed:)?tool_call>)\s*)?<function=({_NAME})>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]{1,200})>")


def _read_function(text: str, start: int) -> Found | None:
    """``<function=f>`` with an object, or with parameters in tags."""
    opening = _FUNCTION.match(text, start)
    wrapper = "" if opening is None else opening[1] or ""
    calls: list[Call] = []
    while opening is not None:
        read = _read_function_body(text, opening)
        if read is None:
            return None
        calls.append(read[0])
        end = _close(text, read[1], wrapper.replace("<", "</"))
        if end is not None:
            return calls, end if wrapper else read[1]
        opening = _FUNCTION.match(text, _skip(text, read[1]))
        if opening is not None and opening[1]:
            break
    return None


def _read_function_body(text: str, opening: re.Match[str]) -> tuple[Call, int] | None:
    place = _skip(text, opening.end())
    if text.startswith("{", place):
        found = read_json_at(text, place)
        stop = text.find("</function>", place) if found is None else found[1]
        end = None if stop < 0 else _close(text, stop, "</function>")
        if end is None:
            return None
        arguments = text[place:stop].rstrip() if found is None else text[place : found[1]]
        return Call(opening[2], arguments), end
    pairs = read_pairs(text, opening.end(), _PARAMETER, "", "</parameter>")
    end = None if pairs is None else _close(text, pairs[1], "</function>")
    if end is not None and pairs is not None:
        return Call(opening[2], pairs[0] or ""), end
    stop = text.find("</function>", place)
    if stop < 0 or pairs is not None:
        return None
    return Call(opening[2], text[place:stop].rstrip()), stop + len("</function>")  # refused: a parameter has no end


# --- Groq: what stands in `failed_generation` -------------------------------------------------------------------------

_GROQ = re.compile(rf"<function(?:=|\(|\s*:?\s+)({_NAME})(?:\[\])?[)>,\s]*(?=[\[{{])")
_END_OF_GROQ = re.compile(r"[>)]*\s*</function>")


def _read_groq(text: str, start: int) -> Found | None:
    opening = _GROQ.match(text, start)
    found = None if opening is None else read_json_at(text, opening.end())
    end = None if found is None else _close(text, found[1], _END_OF_GROQ)
    if opening is None or found is None or end is None:
        return None
    return [Call(opening[1], text[opening.end() : found[1]])], end


# --- Harmony: gpt-oss -------------------------------------------------------------------------------------------------

_CHANNEL = r"<\|channel\|>\s*(?:commentary|analysis)"
_HARMONY = re.compile(
    rf"(?:<\|start\|>\s*assistant\s*)?(?:{_CHANNEL}\s+to=({_NAME})|to=({_NAME})\s*{_CHANNEL})"
    r"\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*<\|message\|>\s*(?=\{)"
)


def _read_harmony(text: str, start: int) -> Found | None:
    opening = _HARMONY.match(text, start)
    found = None if opening is None else read_json_at(text, opening.end())
    if opening is None:
        return None
    name = (opening[1] or opening[2]).removeprefix("functions.")
    if found is not None:
        end = _close(text, found[1], "<|call|>")
        return None if end is None else ([Call(name, text[opening.end() : found[1]])], end)
    stop = text.find("<|call|>", opening.end())
    return None if stop < 0 else ([Call(name, text[opening.end() : stop].rstrip())], stop + len("<|call|>"))


# --- <invoke>: MiniMax, Anthropic's older models, DeepSeek V3.2 -------------------------------------------------------

_INVOKE = re.compile(rf"(?:<{_TAGS}(?:function_calls|tool_calls?)>\s*)?<{_TAGS}invoke\s+name=[\"']?({_NAME})[\"']?\s*>")
_TAG = rf"<{_TAGS}(?:function_calls|tool_calls?|invoke)"
_WRAPPER = re.compile(rf"<({_TAGS}(?:function_calls|tool_calls?))>\s*")
_ONE = re.compile(rf"<({_TAGS})invoke\s+name=[\"']?({_NAME})[\"']?\s*>")
_PARAMETER_OF_ONE = re.compile(rf"\s*<{_TAGS}parameter\s+name=[\"']?([^<>\"']{{1,200}})[\"']?(?:\s[^<>]{{0,100}})?>")


def _read_invoke(text: str, start: int) -> Found | None:
    wrapper = _WRAPPER.match(text, start)
    place = start if wrapper is None else wrapper.end()
    calls: list[Call] = []
    while (opening := _ONE.match(text, place)) is not None:
        pairs = read_pairs(text, opening.end(), _PARAMETER_OF_ONE, "", f"</{opening[1]}parameter>")
        end = None if pairs is None else _close(text, pairs[1], f"</{opening[1]}invoke>")
        if pairs is None or end is None:
            return None
        calls.append(Call(opening[2], pairs[0] or ""))
        if wrapper is None:
            return calls, end
        place = _skip(text, end)
    end = None if wrapper is None else _close(text, place, f"</{wrapper[1]}>")
    return None if end is None else (calls, end)


# --- GLM --------------------------------------------------------------------------------------------------------------

_GLM = re.compile(rf"<tool_call>\s*({_NAME})\s*(?:(?=<arg_key>)|(?<=\n)(?=</tool_call>))")
_ARG = re.compile(r"\s*<arg_key>([^<>]{1,200})</arg_key>")


def _read_glm(text: str, start: int) -> Found | None:
    opening = _GLM.match(text, start)
    pairs = None if opening is None else read_pairs(text, opening.end(), _ARG, "<arg_value>", "</arg_value>")
    end = None if pairs is None else _close(text, pairs[1], _END_OF_CALL)
    return None if opening is None or pairs is None or end is None else ([Call(opening[1], pairs[0] or "")], end)


# --- Kimi, DeepSeek: a section of calls, each between control tokens --------------------------------------------------

_KIMI = re.compile(
    rf"(?:<\|tool_calls_section_begin\|>\s*)?<\|tool_call_begin\|>\s*(?:functions\.)?({_NAME}?)(?::\d{{1,4}})?\s*"
    r"<\|tool_call_argument_begin\|>\s*(?=\{)"
)
_END_OF_KIMI = re.compile(r"<\|tool_call_end\|>(?:\s*<\|tool_calls_section_end\|>)?")
_WIDE = {name: f"<\uff5c{name.replace('_', chr(0x2581))}\uff5c>" for name in (
    "tool_calls_begin", "tool_call_begin", "tool_sep", "tool_call_end", "tool_calls_end",
)}  # fmt: skip
_DEEPSEEK = re.compile(
    rf"(?:{_WIDE['tool_calls_begin']}\s*)?{_WIDE['tool_call_begin']}\s*(?:function{_WIDE['tool_sep']})?({_NAME})\s*"
    rf"(?:{_WIDE['tool_sep']}\s*|\s(?=```))(?:```(?:json)?\s*)?(?=\{{)"
)
_END_OF_DEEPSEEK = re.compile(rf"(?:```\s*)?{_WIDE['tool_call_end']}(?:\s*{_WIDE['tool_calls_end']})?")


def _read_between(opening: re.Pattern[str], closing: re.Pattern[str]) -> Reader:
    """The reader of calls with an object between two marks."""

    def read(text: str, start: int) -> Found | None:
        first = opening.match(text, start)
        found = None if first is None else read_json_at(text, first.end())
        end = None if found is None else _close(text, found[1], closing)
        if first is not None and found is not None and end is not None:
            return [Call(first[1], text[first.end() : found[1]])], end
        last = None if first is None else closing.search(text, first.end())
        if first is None or last is None or found is not None:
            return None
        return [Call(first[1], text[first.end() : last.start()].rstrip())], last.end()  # refused: it is broken

    return read


# --- Mistral, Llama: to the end of the text ---------------------------------------------------------------------------

_MISTRAL = re.compile(rf"\[TOOL_CALLS\]\s*(?=\[|{_NAME}(?:\[|\{{))")
_NAMED = re.compile(rf"\[TOOL_CALLS\]\s*({_NAME})(?:\[CALL_ID\]\w{{1,64}})?(?:\[ARGS\])?\s*(?=\{{)")
_LLAMA = re.compile(r"<\|python_(?:tag|start)\|>\s*(?=[\[{])")
_END_OF_MISTRAL = re.compile(r"\[/TOOL_CALLS\]")


def _read_mistral(text: str, start: int) -> Found | None:
    calls: list[Call] = []
    place = start
    while (named := _NAMED.match(text, place)) is not None:
        found = read_json_at(text, named.end())
        if found is None:
            return None
        calls.append(Call(named[1], write_arguments(found[0])))
        place = _skip(text, found[1])
    if not calls:
        begin = start + len("[TOOL_CALLS]")
        found = read_json_at(text, _skip(text, begin))
        if found is None:
            return None
        calls, place = read_json(text[begin : found[1]]), found[1]
    end = _close(text, place, _END_OF_MISTRAL) or place
    return (calls, len(text)) if not text[end:].strip() else None


def _read_llama(text: str, start: int) -> Found | None:
    body = text[text.index("|>", start) + 2 :].rstrip().removesuffix("<|python_end|>")
    calls = read_json(body) or read_python(body)
    return (calls, len(text)) if calls else None


FORMS: Final = (
    Form("hermes", "<tool_call>", _HERMES, _read_hermes, also=("qwen", "qwen2.5", "qwen3")),
    Form(
        "qwen3-coder",
        "<(?:seed:)?tool_call>|<function=",
        _FUNCTION,
        _read_function,
        also=("qwen-coder", "seed-oss", "function", "llama", "llama3", "groq", "failed_generation"),
    ),
    Form("groq", "<function", _GROQ, _read_groq, also=("failed_generation",)),
    Form(
        "harmony",
        r"<\|(?:start|channel)\|>|to=functions\.",
        _HARMONY,
        _read_harmony,
        inline=True,
        also=("gpt-oss", "openai"),
    ),
    Form("invoke", _TAG, _INVOKE, _read_invoke, also=("minimax", "minimax-m2", "anthropic", "claude", "deepseek-v3.2")),
    Form("glm", "<tool_call>", _GLM, _read_glm, also=("glm4", "glm-4.5")),
    Form(
        "kimi",
        r"<\|tool_calls?_(?:section_)?begin\|>",
        _KIMI,
        _read_between(_KIMI, _END_OF_KIMI),
        inline=True,
        also=("kimi-k2",),
    ),
    Form(
        "deepseek",
        "<\uff5ctool\u2581calls?\u2581begin\uff5c>",
        _DEEPSEEK,
        _read_between(_DEEPSEEK, _END_OF_DEEPSEEK),
        inline=True,
        also=("deepseek-v3",),
    ),
    Form("mistral", r"\[TOOL_CALLS\]", _MISTRAL, _read_mistral, inline=True),
    Form("llama", r"<\|python_(?:tag|start)\|>", _LLAMA, _read_llama, inline=True, also=("llama3", "llama4")),
)

_FENCE = re.compile(r"```(?:json|tool_call|tool_calls)?[ \t]*\r?\n(.*?)```", re.DOTALL)


def _read_fences(text: str) -> list[Call]:
    """The calls in fences, if the text has nothing but them."""
    calls: list[Call] = []
    place = 0
    while place < len(text):
        fence = _FENCE.match(text, place)
        read = [] if fence is None else read_json(fence[1])
        if fence is None or not read:
            return []
        calls += read
        place = _skip(text, fence.end())
    return calls


# A text that is a call, and nothing else: its name, the reader, and further names. No mark says that it is one.
WHOLE: Final[tuple[tuple[str, Callable[[str], list[Call]], tuple[str, ...]], ...]] = (
    ("json", lambda text: read_json(text) or _read_fences(text), ("llama", "llama3", "failed_generation", "groq")),
    ("pythonic", read_python, ("python", "llama", "llama3", "llama4")),
)

# The forms that no reader here has, by the name of the model or of the way.
UNREAD: Final = tuple(
    (name, re.compile(pattern, re.MULTILINE))
    for name, pattern in (
        ("Phi", r"<\|/tool_call\|>|^[ \t]*functools\["),
        ("Granite", r"<\|tool_call\|>"),
        ("LFM2", r"<\|tool_call_start\|>"),
        ("Gemma", r"^[ \t]*```tool_code|<start_function_call>|<\|tool_call>"),
        ("ReAct", r"^[ \t]*Action:[^\n]*\n+[ \t]*Action Input:"),
        ("Command", r"<\|START_ACTION\|>"),
        ("InternLM", r"<\|action_start\|>"),
        ("Nemotron", r"<TOOLCALL>"),
        ("Functionary", r"^>>>[\w.]{1,100}\n"),
        ("Jamba", r"<tool_calls>\s*\["),
    )
)
