"""What of a text is not said as a call: thoughts, code that is shown, and markup that prose quotes or names."""

from __future__ import annotations

import re
from typing import Final

# What hides all that stands in it, as the mark that begins it and the one that ends it; without the latter, the rest.
_THOUGHTS: Final = (
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("think", "thinking", "thought", "reasoning", "reflection", "seed:think")
    ),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|channel>thought", "<channel|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi's
)
_SHOWN: Final = tuple((f"<{name}>", f"</{name}>") for name in (
    "pre", "code", "samp", "example", "examples", "blockquote", "quote", "details", "user", "document", "context",
    "log",
))  # fmt: skip
ENDS: Final = dict((*_THOUGHTS, *_SHOWN))
BEGIN: Final = "|".join(map(re.escape, ENDS))
END_OF_THOUGHT: Final = "|".join(re.escape(end) for _, end in _THOUGHTS if end != "<|end|>")
FENCE: Final = "```|~~~"
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[^\n]*(?:\n|\Z)")

_NEAR = 1_000  # characters in front of a mark that are looked at
_INDENT = 4  # blanks in front of a line of code
_LAST = 80  # of a sentence that has no end
_EAST = 0x2E80  # letters from here on have no capitals, nor have emoji
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_OPENING = "\u201c\u201e\u00ab\u2039\u300c\u300e\u2018\u201a"  # quotation marks
_CLOSING = "\u201d\u00bb\u203a\u300d\u300f\u2019"
_OPENING_QUOTE = re.compile(r"(?:^|[\s(\[])'(?=\S)", re.MULTILINE)
_CLOSING_QUOTE = re.compile(r"(?<=\S)'(?!\w)")
_QUOTES = ("`", '"', "'")
_BEFORE_A_QUOTE = frozenset("\"'`(" + _OPENING + "\u2019\u201d")
_BULLET = re.compile(
    r"[ \t]*(?:[-*+\u2022|>#]|\d{1,3}[.)])[ \t]*(?:\[.\][ \t]*)?(?:\*\*|__)?|(?: {4}|[ ]{0,3}\t)[ \t]*"
)
_QUOTED_LINE = re.compile(r"[ \t]*[>|]")
_END_OF_SENTENCE = frozenset(".!?:\u2026\u3002\uff01\uff1f\uff1a)]}*_")
# What a sentence says that shows markup, rather than means it; the last ones at its end only.
_MENTION = re.compile(
    r"\b(?:for example|for instance|such as|looks? (?:like|as follows)|examples?|syntax|template|notation|writes|emits"
    r"|explain|quote|show|describe|not|never|don['\u2019]t|won['\u2019]t|would (?:\w+ )?(?:be|send|write|look|emit)"
    r"|(?:the|this|that|its|following|in) (?:\w+ )?(?:format|form|markup|tags?)"
    r"|(?:you|one|they|models?) (?:\w+ )?(?:write|send|emit|output|use|see))\b|\b(?:e\.g|i\.e)\."
    r"|\b(?:was|were|contain(?:s|ed)|says?|said|pasted|show(?:s|ed)|wrote|output|transcript|log|how)\W*\Z",
    re.IGNORECASE,
)
# What it says that goes on to act: a call may then follow on a colon, or on no end at all.
_INTENT = re.compile(
    r"\b(?:I['\u2019](?:ll|m)|I (?:will|am|need|must|should)|let me|let['\u2019]s|we need)\b", re.IGNORECASE
)
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t].*|\*\*[^*\n]+\*\*:?|__[^_\n]+__:?)[ \t]*")
_TOKENS = re.compile(r"\A(?:[ \t]*(?:<\|\w{1,40}\|>|<\uff5c[\w\u2581]{1,40}\uff5c>|</s>))+")
_SENTENCE = re.compile(r"[.!?\u3002\uff01\uff1f](?:\s+|$)")


def end_of_hidden(text: str, mark: str, place: int) -> int:
    """The place behind a thought, or shown code, that begins with a mark; the end of the text if it does not end."""
    end = ENDS.get(mark)
    if (
        end is not None
        and text[max(0, place - 1) : place] == text[place + len(mark) : place + len(mark) + 1] in _QUOTES
    ):
        return place + len(mark)  # its name is quoted
    if end is not None:
        found = text.find(end, place + len(mark))
        return len(text) if found < 0 else found + len(end)
    opened = _FENCE.match(text, place)
    line = text[text.rfind("\n", max(0, place - _INDENT), place) + 1 : place]
    if opened is None or line.strip() or len(line) >= _INDENT:  # code in a line
        return place + len(mark)
    fence = opened["fence"]
    closed = re.compile(rf"^[ ]{{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)
    found_end = closed.search(text, opened.end())
    return len(text) if found_end is None else found_end.end()


def is_named(text: str, begin: int, start: int, *, inline: bool) -> bool:
    """Whether prose quotes or names the markup that stands at ``start``, as far as what is in front of it says."""
    before = text[max(begin, start - _NEAR) : start]
    paragraph = _PARAGRAPH.split(before)[-1]
    line = paragraph[paragraph.rfind("\n") + 1 :]
    if _is_quoted(paragraph) or _QUOTED_LINE.match(line):
        return True
    said = before.rstrip()
    if not said:
        return False
    if _BULLET.fullmatch(line) or said[-1] in _BEFORE_A_QUOTE:
        return True
    last = _SENTENCE.split(said)[-1] or said[-_LAST:]
    is_within = bool(line.strip()) and (said[-1] == ":" or said[-1] not in _END_OF_SENTENCE)
    if is_within and not (inline and before == said) and not _INTENT.search(last):
        return True
    is_open = said[-1] == ":" or said[-1] not in _END_OF_SENTENCE or said.endswith((".g.", ".e."))
    is_open = is_open or _HEADING.fullmatch(said[said.rfind("\n") + 1 :]) is not None
    return is_open and _MENTION.search(last) is not None


def goes_on(text: str, begin: int, start: int, end: int) -> bool:
    """Whether the sentence around markup goes on behind it, so that the markup is a part of it."""
    rest = _TOKENS.sub("", text[end : end + _NEAR]).partition("\n")[0].strip()
    if rest and not (rest[0].isupper() or rest[0].isdigit() or rest[0] in "<[" or ord(rest[0]) > _EAST):
        return True
    said, after = text[max(begin, start - _NEAR) : start].rstrip(), text[end : end + _NEAR].strip()
    return bool(said and after) and (said[-1] == ":" or (said[-1] not in _END_OF_SENTENCE and not after[0].isupper()))


def _is_quoted(paragraph: str) -> bool:
    """Whether a quotation or code is open at the end of a paragraph."""
    if paragraph.count("`") % 2 or paragraph.count('"') % 2:
        return True
    opened = max(map(paragraph.rfind, _OPENING))
    if opened >= 0 and opened > max(map(paragraph.rfind, _CLOSING)):
        return not (paragraph[opened] == "\u201c" and "\u201e" in paragraph[:opened])
    quotes = [found.start() for found in _OPENING_QUOTE.finditer(paragraph)]
    closed = [found.start() for found in _CLOSING_QUOTE.finditer(paragraph)]
    return bool(quotes) and quotes[-1] >= (closed[-1] if closed else -1)
