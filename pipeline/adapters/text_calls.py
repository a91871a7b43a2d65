"""Calls that a model wrote as text: open models do so if their server does not know their format.

Read are the forms of Hermes and Qwen (``<tool_call>{…}</tool_call>``), of Mistral (``[TOOL_CALLS][…]`` and
``[TOOL_CALLS]name[ARGS]{…}``), of Llama (``<|python_tag|>{…}``, ``<function=name>{…}</function>``, ``{"name": …,
"parameters": …}`` as the whole text, and ``[f(a=1), g()]``), and JSON in a fenced block.

Sources: the chat templates of these models, and the parsers of vLLM (tool_parsers) and llama.cpp (common/chat.cpp).
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, cast
from uuid import uuid4

from ..engine.call import Call
from .common import CUT_OFF

_LONGEST = 200_000  # characters; a longer text is not searched for calls
_LONGEST_PYTHON = 10_000
_LONGEST_INTEGER = 100  # digits; to read one takes time that grows with the square of them
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_KEYS = frozenset(("name", "id", "type", "function", *_ARGUMENTS))
_TAGGED = re.compile(r"<tool_call>(.*?)(</tool_call>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^<>\s]{1,200})>(.*?)(</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\s]{1,200})>\n?")
_END_OF_PARAMETER = "</parameter>"
_BETWEEN = re.compile(r"[ \n\r\t;,]*")
_BROKEN = re.compile(
    r"""\s*\{+\s*["']name["']\s*:\s*["']([^"'\\]{1,200})["']\s*,\s*["'](?:arguments|parameters)["']\s*:\s*(\{.*)""",
    re.DOTALL,
)
_NAMED = re.compile(r"\[TOOL_CALLS\]([\w.-]{1,200})(?:\[CALL_ID\]\w{1,64})?(?:\[ARGS\])?(?=\{)")
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```(?:json|tool_call|tool_calls|tool_code)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_MARKS = ("<|python_tag|>", "[TOOL_CALLS]")
_END_TOKENS = re.compile(r"(?:<\|eom_id\|>|<\|eot_id\|>|<\|im_end\|>|</s>)\s*\Z")
_MARK = f"number-{uuid4().hex[:8]}:"  # no text begins with it
_NUMBER = re.compile(f'"{_MARK}([^"]*)"')


def read_text_calls(text: str) -> tuple[list[Call], str]:
    """The calls in a text, without ids, and the text around them. Never raises.

    An object is a call if it has a name and arguments, and nothing that a call does not have. Numbers in arguments
    stay as they were written. A call in tags whose JSON is broken is a call: its arguments are what stands there, and a
    pipeline says to the model what is wrong with them. The thoughts of a model before its answer hold no calls.
    """
    thought = _THOUGHT.match(text)
    if thought is not None:
        found, said = _read(text[thought.end() :])
        return (found, (thought[0] + said).strip()) if found else (found, text)
    return _read(text)


def _read(whole: str) -> tuple[list[Call], str]:
    text = _END_TOKENS.sub("", whole) if len(whole) <= _LONGEST else ""
    for pattern, read in ((_TAGGED, _read_tagged), (_FUNCTION, _read_function), (_FENCED, _read_json)):
        found: list[Call] = []
        around: list[str] = []
        end = 0
        for match in pattern.finditer(text):
            if calls := read(*match.groups()):
                found += calls
                around.append(text[end : match.start()])
                end = match.end()
        if found:
            return found, "".join([*around, text[end:]]).strip()
    if calls := _read_named(text):
        return calls, text[: text.find("[TOOL_CALLS]")].strip()
    for mark in _MARKS:
        before, _, after = text.partition(mark)
        if after and (calls := _read_json(after) or _read_python(after)):
            return calls, before.strip()
    calls = _read_json(text) or _read_python(text)
    return calls, "" if calls else whole


def looks_like_calls(text: str) -> bool:
    """Whether a text has one of these forms."""
    return any(mark in text for mark in ("{", "<function=", "[")) and bool(read_text_calls(text)[0])


def _read_tagged(text: str, end: str) -> list[Call]:
    found = [call for name, body, own in _FUNCTION.findall(text) for call in _read_function(name, body, own or end)]
    return found or _read_json(text, tagged=True) or _read_broken(text, end)  # Qwen3-Coder has functions


def _read_broken(text: str, end: str) -> list[Call]:
    """The call, with its arguments as they stand there, up to the brace that ends the call."""
    found = _BROKEN.match(text)
    if found is None:
        return []
    arguments = found[2].rstrip()
    if arguments.endswith("}") and _is_closed(arguments):
        arguments = arguments[:-1].rstrip()
    return [Call(found[1], arguments, finish_reason=None if end else CUT_OFF)]


def _is_closed(arguments: str) -> bool:
    """Whether there is one brace more that closes than opens, as it is where the call itself was closed as well."""
    return arguments.count("}") > arguments.count("{")


def _read_named(text: str) -> list[Call]:
    """The calls of Mistral's later models: a mark, a name and an object for each."""
    calls: list[Call] = []
    for match in _NAMED.finditer(text):
        try:
            data, _ = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return []
        calls.append(Call(match[1], _dump(data)))
    return calls


def _read_function(name: str, body: str, end: str) -> list[Call]:
    """The call of a function, whose parameters have the form of Qwen3-Coder, or are an object.

    An object shows where it ends, and parameters do not: without the end of the function some may be missing.
    """
    arguments = body.strip()
    if arguments.startswith("{"):
        return [Call(name, arguments)]
    if not end:
        return [Call(name, arguments, finish_reason=CUT_OFF)]
    if not arguments:
        return [Call(name, "")]
    if not _PARAMETER.search(arguments):
        return []
    values = _read_parameters(body)  # the schema says which of them are numbers
    return [Call(name, arguments if values is None else values)]  # text that is not an object is refused


def _read_parameters(body: str) -> dict[str, str] | None:
    """Each value up to the next end of a parameter; None if one has no end.

    In steps: a pattern of both ends takes quadratic time.
    """
    values: dict[str, str] = {}
    place = 0
    while (begin := _PARAMETER.search(body, place)) is not None:
        end = body.find(_END_OF_PARAMETER, begin.end())
        if end < 0:
            return None
        values[begin[1]] = body[begin.end() : end].removesuffix("\n")
        place = end + len(_END_OF_PARAMETER)
    return values


def _read_json(text: str, *, tagged: bool = False) -> list[Call]:
    """The calls in JSON: one object, a list of them, or several one after the other. None if anything else is there."""
    text = text.strip()
    calls: list[Call] = []
    place = 0
    try:
        while place < len(text):
            data, end = _DECODER.raw_decode(text, place)
            items: list[Any] = cast("list[Any]", data) if isinstance(data, list) else [data]
            each = [_read_object(item, tagged=tagged) for item in items]
            if not each or None in each:
                return []
            calls += [call for call in each if call is not None]
            between = _BETWEEN.match(text, end)
            place = end if between is None else between.end()
    except (ValueError, RecursionError):
        return []
    return calls


def _read_object(data: Any, *, tagged: bool) -> Call | None:
    if not isinstance(data, dict):
        return None
    found = cast("dict[str, Any]", data)
    if isinstance(found.get("function"), dict):
        found = cast("dict[str, Any]", found["function"])
    name = found.get("name", found.get("function"))
    key = next((key for key in _ARGUMENTS if key in found), None)
    if (
        not isinstance(name, str)
        or not name
        or name.startswith(_MARK)
        or not set(found) <= _KEYS
        or (key is None and not tagged)
    ):
        return None
    arguments: Any = {} if key is None or found[key] is None else found[key]
    if isinstance(arguments, str):
        return Call(name, arguments)
    return Call(name, _dump(arguments)) if isinstance(arguments, dict) else None


def _keep(token: str) -> str:
    """A number as it was written: 3.10 and 1e400 would be others after a float."""
    return _MARK + token


def _keep_long(digits: str) -> int | str:
    """An integer; one of many digits, and "-0", as they were written."""
    return _keep(digits) if len(digits) > _LONGEST_INTEGER or digits == "-0" else int(digits)


_DECODER = json.JSONDecoder(parse_float=_keep, parse_int=_keep_long, parse_constant=_keep)


def _dump(arguments: Any) -> str:
    return _NUMBER.sub(r"\1", json.dumps(arguments, ensure_ascii=False))


def _read_python(text: str) -> list[Call]:
    """The calls in a list in Python's spelling, with nothing but literals as keyword arguments."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith(")]") and len(text) <= _LONGEST_PYTHON):
        return []
    try:
        tree = ast.parse(text, mode="eval").body
        each = tree.elts if isinstance(tree, ast.List) else []
        return [_read_python_call(node) for node in each]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []


def _read_python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, (ast.Name, ast.Attribute)):
        raise ValueError("not a call with keyword arguments")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("** has no names")
    arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return Call(ast.unparse(node.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False))
