"""Transport noise: what a provider or a chat template leaves at the ends of a tool's name, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..base.model_marks import MARK, cut_marks

_BLANKS = " \t\r\n"
_QUOTES = "\"'`"
# The namespace of functions in OpenAI's Harmony format, https://cookbook.openai.com/articles/openai-harmony, and
# Gemini's; Kimi writes the number of the call behind the name: functions.read:0
_PREFIX = re.compile(r"(?:functions|default_api)[.:]")
_NUMBER = re.compile(r"(.+):\d{1,3}")
# These may follow a token in that format: a channel, a role, the type of the content. Other text may be of the name.
_ARGUMENT = r"(?:commentary|analysis|final|assistant|user|system|developer|tool|json|code)(?![\w.-])"
_FIRST_TOKEN = re.compile(rf"<\|\w+\|>(?!\s*{_ARGUMENT})", re.ASCII)
_LAST_TOKEN = re.compile(rf"<\|\w+\|>\s*(?:{_ARGUMENT}\s*)*|<\|(?P<cut>\w+)\|?", re.ASCII)
# The tokens that are known when cut off, from three letters on: "<|cha". Other text may be an operator, such as "<|".
_TOKENS = ("channel", "start", "end", "message", "constrain", "call", "return", "im_start", "im_end", "endoftext")
_CUT_TOKENS = frozenset(token[:length] for token in _TOKENS for length in range(3, len(token) + 1))
# What the templates of other models put in front of a name.
_FIRST_MARK = re.compile(
    rf"(?:function)?<\uff5ctool\u2581sep\uff5c>|{MARK}|(?:(?:assistant|commentary|analysis)\s*)?to=(?=functions\.)"
)
_TAGGED = re.compile(r"<(?:function|invoke name|tool name)=([^<>]+)>?")
_WRAPPERS = frozenset(("multi_tool_use.parallel", "multi_tool_use__parallel", "multi_tool_use_parallel"))
_ANY_TOKEN = re.compile(r"<\|[^|>]*\|?>?")
_COMMAND_END = re.compile(r"[\s;|&<>()]")  # a blank or an operator of a shell; "(" begins the arguments of a function
_MAX_READINGS = 500  # of one name: each of them is looked up, and no template leaves so much
_MAX_LENGTH = 1_000  # characters; no tool is meant by a longer name


def list_readings(name: str) -> list[str]:
    """All names that this one may be, with more or less of the transport noise at its ends cut off.

    Noise is a blank; a pair of quotes, or one quote next to the name; the prefix ``functions.`` or ``default_api.``,
    once, and behind a name with it the number of the call; a control token or a tag of a template in front
    (``<|start|>read``, ``<function=read>``); one behind the name, with the channel, role or type that follows it
    (``read<|channel|>commentary``), or cut off (``read<|chan``). A reading that keeps some of the noise is one as well,
    because a tool may have such a name.

    Returns:
        The readings, the longest first: the name itself, and last the name without any noise. Only the name itself if
        it has more than 1,000 characters or 500 readings.
    """
    if len(name) > _MAX_LENGTH:
        return [name]
    found = _peel_all([name])
    bare = [text[prefix.end() :] for text in list(found) if (prefix := _PREFIX.match(text))]
    found |= _peel_all([*bare, *(number[1] for text in bare if (number := _NUMBER.fullmatch(text)))])
    return [name] if len(found) > _MAX_READINGS else sorted(found, key=len, reverse=True)


def _peel_all(texts: Iterable[str]) -> dict[str, None]:
    found = dict.fromkeys(texts)
    waiting = list(found)
    for text in waiting:  # which grows
        new = [shorter for shorter in _peel(text) if shorter not in found]
        found.update(dict.fromkeys(new))
        waiting += new
        if len(waiting) > _MAX_READINGS:
            break
    return found


def _peel(text: str) -> Iterator[str]:
    """The text without one piece of noise, for each piece that is outermost."""
    first, last = text[:1], text[-1:]
    if first and first in _BLANKS:
        yield text[1:]
    if last and last in _BLANKS:
        yield text[:-1]
    if first and first in _QUOTES and first == last:
        yield text[1:-1]
    # A quote beside a blank belongs to a command line: `cat ""`.
    if first in _QUOTES and text[1:2] not in _BLANKS:
        yield text[1:]
    if last in _QUOTES and text[-2:-1] not in _BLANKS:
        yield text[:-1]
    yield from _peel_marks(text)


def _peel_marks(text: str) -> Iterator[str]:
    """The text without the outermost mark of a template, at either end."""
    if token := _FIRST_TOKEN.match(text):
        yield text[token.end() :]
    if mark := _FIRST_MARK.match(text):
        yield text[mark.end() :]
    if tagged := _TAGGED.fullmatch(text):
        yield tagged[1]
    if text.endswith((">", "]")) and (bare := cut_marks(text)) != text:
        yield bare
    start = text.rfind("<|")
    if start > 0 and (token := _LAST_TOKEN.fullmatch(text, start)):
        cut = token["cut"]
        if cut is None or cut in _CUT_TOKENS:
            yield text[:start]


def split_at_tokens(name: str) -> list[str]:
    """The texts that a name with a control token in its middle may have been: up to the token, and without it."""
    head, token, _ = name.partition("<|")
    if not token:
        return [name]
    return [text for text in (head, _ANY_TOKEN.sub("", name)) if text] or [""]


def find_command(name: str) -> str:
    """The first word of a name that may be a command line, such as ``cat file``; "" if it cannot be one."""
    word = _COMMAND_END.split(name, maxsplit=1)[0]
    return word if len(word) < len(name) else ""


def holds_calls(name: str) -> bool:
    """Whether this is OpenAI's ``multi_tool_use.parallel``, whose arguments are calls, see `wrapped_calls`."""
    return name in _WRAPPERS
