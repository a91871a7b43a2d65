"""Mask the known secrets of a call in other texts, such as the text of an exception.

A secret is found whole, line by line, in base64 or hex, and where the text was cut: ``hunt...`` for ``hunter2``. The
case of its letters does not matter. It is also found where it is escaped: as in a string of Python or JSON, any number
of times, in a URL or in HTML. For these the text is searched a second time without its escapes. A pattern of every way
to write a secret would take seconds to compile.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b32decode, b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, lru_cache
from html import unescape as unescape_html
from itertools import accumulate, islice
from typing import Any, Final, TypeAlias, cast

import attrs

from ..base.foreign_values import or_default
from ..parameters.reading import read_literal
from .public_text import REDACTED
from .written_forms import list_other_forms, list_parts, list_unicode_forms

_MAX_TEXTS = 100  # of one call
_MAX_LINES = 10_000  # of one call
_MAX_FORMS = 200  # other ways to write them; a pattern of thousands takes seconds to compile
_MAX_SPREAD = 200_000  # characters of a text that is also looked for on one line
_MAX_VALUES = 2_000  # that are looked at
_SHORT: Final = 4  # characters: a shorter secret is masked only where it stands alone, for it may be part of any word
_SHORT_NUMBER: Final = 8  # digits, as above
_LIKE_A_SECRET: Final = 6  # characters of a text under a name that is not declared, for it to be taken for a secret
_LINE: Final = 12  # characters of a line of a longer secret, such as a key in PEM
_IN_PATTERN: Final = 100  # characters of a secret in a pattern; what follows is compared
_END: Final = 4  # characters of the beginning or end of a secret that are masked at a cut
_FEW_CUTS: Final = 20
_AT_THE_EDGE: Final = 6  # the same where the text itself begins or ends, for any word may stand there
_BRANCHINGS: Final = 4  # characters at the start of secrets that are compared once for all of them
_ESCAPED: Final = re.compile(r"[\\%+&]")
_CUT: Final = re.compile(r"\.{3,}|…")  # as pydantic and `reprlib` cut a text, and as we do
_WORD_START: Final = re.compile(r"(?<![^\W_])\S")  # where a line of a secret may begin
_REST_OF_WORD: Final = re.compile(r"[^\s\"']*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
# Where base64 goes on in another line, as MIME and PEM write it: after 64 or 76 characters.
_WRAPPED: Final = re.compile(r"(?<=[A-Za-z0-9+/]{60})(?:\r?\n|(?:\\+r)?\\+n)[ \t]*(?=[A-Za-z0-9+/=])")
# The same of four characters or more, without the words of a language: small letters alone, or behind one capital.
_CODED: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z0-9+/_=-]{4})(?![A-Z]?[a-z]*+(?![A-Za-z0-9+/_=-]))[A-Za-z0-9+/_-]++={0,2}"
)
_HEX: Final = re.compile(r"[0-9A-Fa-f]+")
# The signs of base64 in a URL, and a slash as PHP writes it.
_IN_URL: Final = re.compile(r"%(?:25)*(?:2[BbFf]|3[Dd])|\\/")
_HEX_APART: Final = re.compile(r"(?<=\b[0-9A-Fa-f]{2})[ :-](?=[0-9A-Fa-f]{2}\b)")
# What a terminal or a document puts into a word without showing it, or where it begins a line.
_BROKEN: Final = re.compile(
    r"[\u00ad\u200b-\u200d\u2060\ufeff]+|\r?\n[ \t]*|(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e)\[[0-9;:?]{0,20}[A-Za-z]"
)
_PIECES: Final = re.compile("['\"], ?['\"]")  # between the pieces of a text in a list, such as its characters
_QUOTED_PRINTABLE: Final = re.compile(r"(?:=[0-9A-F]{2}|=\r?\n)+")
# Words that may be a text in base64, base32 or hex, and lists of bytes: in decimal or as 0x41.
_WORD_OF_CODE: Final = re.compile(r"(?<![A-Za-z0-9+/_-])(?=[a-z]*+[A-Z0-9])[A-Za-z0-9+/_-]{10,10000}+={0,6}")
_BYTES: Final = re.compile(
    r"(?<![\w.])(?:0x[0-9a-fA-F]{2}|\d{1,3})(?:(?:,\s*+|\s++)(?:0x[0-9a-fA-F]{2}|\d{1,3})(?!\w)){5,10000}+"
)
_MAX_DECODED: Final = 20_000  # characters of a text that is looked through for these
_MAX_DEPTH: Final = 2  # codes inside of each other
_BYTE: Final = 256
_PLAIN = (str, int, float, list, tuple, set, frozenset, Mapping)
# The packages of types that a value of JSON becomes, and whose text is what a tool would write: a UUID, a URL, a path.
_WRITTEN: Final = frozenset((
    "uuid", "pydantic", "pydantic_core", "pathlib", "decimal", "fractions", "datetime", "ipaddress",
))  # fmt: skip
_URL_ESCAPE: Final = re.compile(r"(?:%(?:25)*[0-9a-fA-F]{2})+|(?:%(?:25)*u[0-9a-fA-F]{4})+|\+")
_PERCENT_SIGN: Final = re.compile("%(?:25)*(?=[0-9a-fA-F]{2})")
_PERCENT_U: Final = re.compile("%(?:25)*u([0-9a-fA-F]{4})")
_NO_UTF8: Final = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8, as Python escapes them
_HTML: Final = re.compile(r"&(?:amp;)*(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_Span: TypeAlias = tuple[int, int]  # from where to where in a text
# A backslash that escapes nothing, as before a quote, is an escape too.
_BACKSLASH: Final = re.compile(
    r"\\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\+(?:u(?P<four>[0-9a-fA-F]{4})|U(?P<eight>[0-9a-fA-F]{8})|x(?P<two>[0-9a-fA-F]{2})"
    r"|u\{(?P<braces>[0-9a-fA-F]{1,6})\}|(?P<octal>[0-3][0-7]{2})|(?P<letter>[nrtbfva]))?"
)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a"}


@attrs.define(eq=False)
class TextCollector:
    """Collects the texts of withheld values.

    Attributes:
        texts: The values as text, at most about 100.
        lines: The lines of those that have several.
    """

    texts: set[str] = attrs.field(factory=set[str])
    lines: set[str] = attrs.field(factory=set[str])

    @property
    def is_full(self) -> bool:
        """Whether it is full."""
        return len(self.texts) >= _MAX_TEXTS

    def add(self, value: object, *, declared: bool = True) -> None:
        """Add every text and number in a value.

        Args:
            value: Any value.
            declared: Whether it is declared as secret. False: its name is not declared, so only texts that are long
                enough for a secret are added.
        """
        least = 1 if declared else _LIKE_A_SECRET
        if self.is_full or (type(value) is str and len(value) < least):  # most values of a large call
            return
        pending: list[Any] = [value]
        for _ in range(_MAX_VALUES):
            if not pending or self.is_full:
                return
            each = _open(pending.pop())
            if isinstance(each, str):
                if len(each.strip()) >= least:
                    self._add_text(each)
                    held = read_literal(each) if each.lstrip().startswith(("{", "[")) else None
                    pending += [held] if isinstance(held, (dict, list)) else []
            elif isinstance(each, (int, float)):
                if not isinstance(each, bool) and len(str(each)) >= least:
                    self.texts.add(str(each))
            elif isinstance(each, Mapping):
                pending += cast("Mapping[Any, Any]", each).values()
            elif isinstance(each, (list, tuple, set, frozenset)):
                pending += cast("Iterable[Any]", each)

    def make_mask(self) -> Callable[[str], str]:
        """Make a function that replaces these texts in another one, in any of the forms that this module finds."""
        return Mask(tuple(sorted(self.texts, key=len, reverse=True)), frozenset(self.lines)) if self.texts else str

    def add_all(self, other: TextCollector) -> None:
        """Add what another one has collected."""
        self.texts.update(islice(other.texts, max(0, _MAX_TEXTS - len(self.texts))))
        self.lines.update(islice(other.lines, max(0, _MAX_LINES - len(self.lines))))

    def _add_text(self, text: str) -> None:
        stripped = text.strip()
        self.texts.add(stripped)
        if len(inner := stripped.strip("\"'`").strip()) >= _LIKE_A_SECRET:  # a model may send it in quotes
            self.texts.add(inner)
        if len(lines := stripped.splitlines()) > 1:
            held = (line for each in lines[:_MAX_LINES] if len(line := each.strip()) >= _LINE)
            self.lines.update(islice(held, max(0, _MAX_LINES - len(self.lines))))
        self.texts.update(list_parts(stripped))


@or_default(None)
def _open(value: Any) -> object:
    """Return the content of a secret type, a model or bytes; any other value as it is."""
    if callable(reveal := getattr(value, "get_secret_value", None)):
        value = reveal()
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _read_bytes(bytes(cast("bytes", value)))
    package = cast("type[Any]", type(value)).__module__.partition(".")[0]
    if package in _WRITTEN:
        return [str(value), value.hex] if package == "uuid" else str(value)
    fields: Any = getattr(cast("type[Any]", type(value)), "__attrs_attrs__", None)
    if fields:
        return {field.name: getattr(value, field.name) for field in fields}
    is_model = hasattr(value, "__dict__") and not isinstance(value, _PLAIN)
    return cast("object", vars(value) if is_model else value)


def _read_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")  # each byte is the character that its escape in a repr is read as


@attrs.frozen(slots=False, eq=False)
class Mask:
    """Replaces secrets in a text.

    Args:
        texts: The secrets, the longest first.
        lines: Lines of secrets.
    """

    texts: tuple[str, ...]
    lines: frozenset[str]

    def __call__(self, text: str) -> str:
        """Return the text with "[redacted]" in place of each secret."""
        found = self._find(text, 0)
        if not found:
            return text
        shown: list[str] = []
        end = 0
        for first, last in sorted(found):
            if first >= end:
                shown += (text[end:first], REDACTED)
            end = max(end, last)
        return "".join([*shown, text[end:]])

    def _find(self, text: str, depth: int) -> list[_Span]:
        """List where secrets are in a text, that was itself encoded so many times."""
        found = [*self._plain.find(_fold(text)), *self._encoded.find(text)]
        for pattern, read in _IN_TOKENS:
            if pattern.search(text):
                joined = _Layer(text, pattern, read)
                found += [joined.find_origin(*span) for span in self._encoded.find(joined.text)]
        for pattern, read in _JOINED[: None if len(text) <= _MAX_DECODED else 1]:
            if pattern.search(text):
                joined = _Layer(text, pattern, read)
                found += [joined.find_origin(*span) for span in self._long.find(_fold(joined.text))]
        if len(text) <= _MAX_DECODED and depth < _MAX_DEPTH:
            found += self._find_coded(text, depth)
        if _ESCAPED.search(text):
            unescaped = Unescaped(text)
            for level, needles in enumerate(self._unescaped):
                if unescaped.layers[level].changes:
                    layer = _fold(unescaped.layers[level].text)
                    found += [unescaped.find_origin(*span, level) for span in needles.find(layer)]
        return found

    def _find_coded(self, text: str, depth: int) -> Iterator[_Span]:
        """Yield the words and the lists of bytes that hold a secret once they are decoded, also twice."""
        found = [
            (read, match.span())
            for pattern, decode in _CODES
            for match in pattern.finditer(text)
            for read in decode(match[0])
        ]
        if found:  # all are looked through at once
            ends = [*accumulate(len(read) + 1 for read, _ in found)]
            for first, _ in self._find("\0".join(read for read, _ in found), depth + 1):
                yield found[bisect_right(ends, first)][1]

    @cached_property
    def _forms(self) -> tuple[str, ...]:
        """The secrets as tools write them, in other lines, and in another letter case where that has another length."""
        others = (form for text in self.texts for form in list_other_forms(text))
        texts = [*self._texts, *islice(others, _MAX_FORMS)]
        spread = [form for text in self.texts if len(text) <= _MAX_SPREAD for form in _reflow(text)]
        cases = [form for text in texts for form in (text.upper(), text.lower()) if len(form) != len(text)]
        return tuple(dict.fromkeys([*texts, *spread, *cases]))

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(form for text in self.texts for form in list_unicode_forms(text))

    @cached_property
    def _plain(self) -> _Needles:
        return _Needles(self._forms, self.lines)

    @cached_property
    def _long(self) -> _Needles:
        return _Needles(
            [
                text
                for text in self._forms
                if len(text) >= (_LIKE_A_SECRET if not text.isdigit() else _LINE)  # a column may hold a short number
            ],
            (),
        )

    @cached_property
    def _encoded(self) -> _Tokens:
        return _Tokens.of(self._texts)

    @cached_property
    def _unescaped(self) -> list[_Needles]:
        """The secrets without escapes of the first kind, of the first two kinds, and so on."""
        # Python writes the bytes of a text, UTF-8, as if each were a character.
        written = [text.encode(errors="replace").decode("latin-1") for text in self._forms if not text.isascii()]
        texts, lines = [*self._forms, *written], [*self.lines]
        found: list[_Needles] = []
        for pattern, read in _ESCAPES:
            # A text that has such escapes itself is found with them as well, where they were escaped once more.
            read_texts = [_Layer(text, pattern, read).text for text in texts]
            blanks = [text.replace("+", " ") for text in texts] if pattern is _URL_ESCAPE else []  # "%" was escaped too
            texts = [*filter(None, dict.fromkeys([*texts, *read_texts, *blanks]))]
            lines = [_Layer(line, pattern, read).text for line in lines]
            found.append(_Needles(texts, lines))
        return found


def _fold(text: str) -> str:
    """Write letters that differ by their case alone as one; each character keeps its place."""
    folded = text.upper().lower()
    if len(folded) != len(text):  # a letter such as "ß" has two in capitals
        wide = {ord(char): "\ufffd" for char in set(text) if len(char.upper().lower()) != 1}
        folded = text.translate(wide).upper().lower()
    return folded.replace("\u03c2", "\u03c3")  # the last letter of a Greek word, which has the same capital


def _reflow(text: str) -> Iterator[str]:
    """Yield a text of several words or lines as one line, with and without blanks."""
    words = text.split()
    if len(words) < 2:  # noqa: PLR2004
        return
    yield " ".join(words)
    yield "".join(map(str.strip, text.splitlines()))


def _rewrite(text: str) -> Iterator[str]:
    """Yield a text, and what stands for it in a string of JSON or in a file with other line ends."""
    yield text
    if text.isascii() and text.isalnum():
        return
    for written in (text, "\n".join(text.splitlines()), "\r\n".join(text.splitlines())):
        yield from (written, json.dumps(written)[1:-1], json.dumps(written, ensure_ascii=False)[1:-1])


class _Needles:
    """Texts to find in another text: whole, by a line, and by the end that a cut has left of them."""

    def __init__(self, texts: Iterable[str], lines: Iterable[str]) -> None:
        texts = sorted({_fold(text) for text in texts}, key=len, reverse=True)
        lines = frozenset(map(_fold, lines))
        self._pattern = _match_any(texts)
        self._long = [text for text in texts if len(text) > _IN_PATTERN]
        self._lines = lines
        self._lengths: dict[str, set[int]] = {}  # of the lines, by their beginning
        for line in lines:
            self._lengths.setdefault(line[:_LINE], set()).add(len(line))
        self._heads = _group(texts, lambda text: text[:_END])
        self._tails = _group(texts, lambda text: text[-_END:])

    def find(self, text: str) -> Iterator[_Span]:
        """Yield where they are found; the spans may overlap."""
        end = 0
        for match in self._pattern.finditer(text):
            first, last = match.span()
            if last <= end:  # inside of a long one
                continue
            if last - first >= _IN_PATTERN and self._long:
                last, whole = max((_same_until(long, text, first), len(long)) for long in self._long)
                if last - first < whole:  # the rest of the word may belong to it
                    last += len(cast("re.Match[str]", _REST_OF_WORD.match(text, last))[0])
            end = max(end, last)
            yield first, last
        if self._lines:
            for match in _WORD_START.finditer(text):
                first = match.start()
                if (lengths := self._lengths.get(text[first : first + _LINE])) is not None:
                    found = [size for size in lengths if text[first : first + size] in self._lines]
                    yield first, first + max([_LINE, *found])
        yield from self._find_cut(text)

    def _find_cut(self, text: str) -> Iterator[_Span]:
        """Yield the beginnings of them right before a cut, and their ends right after one."""
        cuts = [match.span() for match in _CUT.finditer(text)]
        heads, tails = self._heads, self._tails
        if len(cuts) > _FEW_CUTS:  # else to look beside each is less than to look through the text for each part
            heads = {part: texts for part, texts in heads.items() if part in text}
            tails = {part: texts for part, texts in tails.items() if part in text}
        for low, cut in zip([0, *(last for _, last in cuts)], [*(first for first, _ in cuts), len(text)], strict=True):
            for part, texts in heads.items():
                at = text.find(part, max(low, cut - len(texts[0])), cut)
                while at >= 0 and not any(each.startswith(text[at:cut]) for each in texts):
                    at = text.find(part, at + 1, cut)
                if at >= 0 and cut - at >= (_END if cut < len(text) else _AT_THE_EDGE):
                    yield at, cut
            for part, texts in tails.items():
                at = text.rfind(part, low, min(cut, low + len(texts[0])))
                while at >= 0 and not any(each.endswith(text[low : at + _END]) for each in texts):
                    at = text.rfind(part, low, at + _END - 1)
                if at >= 0 and at + _END - low >= (_END if low > 0 else _AT_THE_EDGE):
                    yield low, at + _END


def _group(texts: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    """Group the texts that a cut may leave a part of by that part, the longest first."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        if len(text) >= _LIKE_A_SECRET:
            groups.setdefault(key(text), []).append(text)
    return groups


def _same_until(needle: str, text: str, first: int) -> int:
    """Return the end of the part of a text, from a place on, that is equal to the beginning of another text."""
    low, high = 0, min(len(needle), len(text) - first)
    while low < high:  # the longest common beginning, by halves
        middle = (low + high + 1) // 2
        if text.startswith(needle[low:middle], first + low):
            low = middle
        else:
            high = middle - 1
    return first + low


class _Tokens:
    """Parts of secrets in base64 and hex. The whole word that holds one is masked: it may be ``user:secret``."""

    def __init__(self, base64: Iterable[str], hexadecimal: Iterable[str], short: Sequence[str]) -> None:
        kinds = ((base64, _BASE64), (hexadecimal, _HEX))
        longest_first = [(sorted(set(parts), key=len, reverse=True), word) for parts, word in kinds]
        self._kinds = [(_match_any(parts), word) for parts, word in longest_first if parts]
        self._short = _match_any(short) if short else None

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Tokens:
        """Encode texts, also as a string of JSON, with other line ends, and in the encodings of Windows.

        In base64 three offsets of a byte give three different parts. Of a text of less than four bytes or eight digits
        no part is long enough to be known, so words are decoded.
        """
        base64, hexadecimal, short = list[str](), list[str](), list[str]()
        for text in dict.fromkeys(form for each in texts for form in _rewrite(each[:_IN_PATTERN])):
            if _is_short(text) or len(text.encode(errors="replace")) < _SHORT:
                short.append(text)
                continue
            for data in _encode(text[:_IN_PATTERN]):
                hexadecimal += (data.hex(), data.hex().upper())
                for offset in range(3):
                    written = b64encode(bytes(offset) + data).decode()
                    part = written[-(-8 * offset // 6) : 8 * (offset + len(data)) // 6]
                    base64 += (part, part.replace("+", "-").replace("/", "_"))
        return cls(base64, hexadecimal, short)

    def find(self, text: str) -> Iterator[_Span]:
        """Yield the words that hold one."""
        for pattern, word in self._kinds:
            if pattern.search(text) is not None:
                for match in word.finditer(text):
                    if pattern.search(text, *match.span()) is not None:
                        yield match.span()
        if self._short is not None:
            for match in _CODED.finditer(text):
                if any(self._short.search(read) is not None for read in _decode(match[0])):
                    yield match.span()


def _is_short(text: str) -> bool:
    """Whether a secret may be a part of any word, and is looked for where it stands alone."""
    return len(text) < (_SHORT_NUMBER if text.isdigit() else _SHORT)


def _encode(text: str) -> Iterator[bytes]:
    yield text.encode(errors="replace")
    yield text.encode("utf-16-le", errors="replace").rstrip(b"\0")  # as PowerShell takes a command; or big-endian
    if not text.isascii():
        yield text.encode("utf-16-be", errors="replace")
        yield text.encode("latin-1", errors="replace")


def _decode(word: str) -> Iterator[str]:
    """Yield what a word says in base64 or hex, if that is a text."""
    for read in (_read_base64, bytes.fromhex):
        try:
            text = read(word).decode()
        except ValueError:
            continue
        if text.isprintable():
            yield text


def _read_base64(word: str) -> bytes:
    return b64decode(
        word.rstrip("=") + "=" * (-len(word.rstrip("=")) % 4), altchars=b"-_" if set(word) & set("-_") else None
    )


def _match_any(texts: Sequence[str]) -> re.Pattern[str]:
    """Make a pattern that finds any of these texts, the longest first, in little more time than one of them.

    Of a long text only the beginning is in the pattern.
    """
    wholes: dict[bool, list[str]] = {False: [], True: []}
    for text in texts:
        wholes[_is_short(text)].append(text[:_IN_PATTERN])
    inside = [_match_branches(wholes[False], _BRANCHINGS)] if wholes[False] else []
    alone_ones = [rf"(?<![^\W_])(?:{_match_branches(wholes[True], _BRANCHINGS)})(?![^\W_])"] if wholes[True] else []
    return re.compile("|".join(inside + alone_ones) or r"(?!)")  # none of no texts, and not the empty text


def _match_branches(texts: list[str], branchings: int) -> str:
    """Make a pattern of texts that compares their first characters once."""
    if len(texts) == 1 or not branchings:
        return "|".join(map(re.escape, texts))
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[:1], []).append(text[1:])
    return "|".join(
        f"{re.escape(first)}(?:{_match_branches(group, branchings - 1 if first else 0)})"
        for first, group in groups.items()
    )


class Unescaped:
    """A text without its escapes, in layers: each is without those of one more kind, and knows the origin of its parts.

    Args:
        text: Any text.
    """

    def __init__(self, text: str) -> None:
        self.layers: list[_Layer] = []
        for pattern, read in _ESCAPES:
            self.layers.append(_Layer(text, pattern, read))
            text = self.layers[-1].text

    def find_origin(self, first: int, last: int, depth: int) -> _Span:
        """Return begin and end, in the original text, of a part of a layer. A part of an escape is the whole escape."""
        for layer in reversed(self.layers[: depth + 1]):
            first, last = layer.find_origin(first, last)
        return first, last


class _Layer:
    """A text without escapes of one kind, and the origins of its pieces."""

    def __init__(self, text: str, pattern: re.Pattern[str], read: Callable[[str], str]) -> None:
        self._source, self._pattern, self._read = text, pattern, read
        self.text, count = pattern.subn(lambda match: read(match[0]), text)
        self.changes = count > 0

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self._pieces]

    @cached_property
    def _pieces(self) -> list[tuple[int, tuple[int, int, bool]]]:
        """The start of each piece, with the start and end of its origin, and whether it was escaped.

        They are made for a text in which a secret was found.
        """
        pieces: list[tuple[int, tuple[int, int, bool]]] = []
        size = end = 0
        for match in self._pattern.finditer(self._source):
            first, last = match.span()
            if first > end:
                pieces.append((size, (end, first, False)))
                size += first - end
            if read := self._read(match[0]):
                pieces.append((size, (first, last, True)))
                size += len(read)
            end = last
        pieces.append((size, (end, len(self._source), False)))
        return pieces

    def find_origin(self, first: int, last: int) -> tuple[int, int]:
        begin, (start, _, escaped) = self._find_piece(first)
        start = start if escaped else start + first - begin
        begin, (from_, to, escaped) = self._find_piece(last - 1)
        return start, to if escaped else from_ + last - begin

    def _find_piece(self, place: int) -> tuple[int, tuple[int, int, bool]]:
        number = bisect_right(self._starts, place) - 1
        return self._pieces[number]


@lru_cache(maxsize=1_000)  # a text has many of the same
def _read_html(written: str) -> str:
    entity = written[1:-1].rpartition(";")[2]  # of "&amp;amp;lt;": "lt"
    if not entity.startswith("#"):
        return unescape_html(f"&{entity};")
    # `html.unescape` drops what HTML forbids, but a text that was only escaped may hold it.
    number = int(f"0{entity[1:]}", 0) if entity[1] in "xX" else int(entity[1:])
    return chr(number) if number <= sys.maxunicode else ""


@lru_cache(maxsize=1_000)
def _read_url(written: str) -> str:
    if written == "+":
        return " "  # "+" is a blank in a URL
    if "u" in written:
        read = _PERCENT_U.sub(lambda match: chr(int(match[1], 16)), written)
    else:
        read = bytes.fromhex(_PERCENT_SIGN.sub("", written)).decode(errors="surrogateescape")
        read = _NO_UTF8.sub(lambda match: chr(ord(match[0]) - 0xDC00), read)  # it is Latin-1 then
    return read.replace("+", " ")  # as above, so that a "+" is the same however it is written


@lru_cache(maxsize=1_000)
def _read_backslash(written: str) -> str:
    match = _BACKSLASH.fullmatch(written)
    assert match is not None
    found = match.groupdict()
    if found["high"]:
        return chr(0x10000 + ((int(found["high"], 16) - 0xD800) << 10 | int(found["low"], 16) - 0xDC00))
    if found["octal"]:
        return chr(int(found["octal"], 8))
    if digits := found["four"] or found["eight"] or found["two"] or found["braces"]:
        number = int(digits, 16)
        return chr(number) if number <= sys.maxunicode else ""
    return _LETTERS[found["letter"]] if found["letter"] else ""


def _decode_word(word: str) -> Iterator[str]:
    """Yield what a word says in base64, hex or base32, if that is a text."""
    for read in (_read_base64, bytes.fromhex, _read_base32):
        try:
            text = read(word).decode().strip()
        except ValueError:
            continue
        if text.isprintable() or "".join(text.split()).isprintable():
            yield text


def _read_base32(word: str) -> bytes:
    digits = word.rstrip("=")
    return b32decode(digits + "=" * (-len(digits) % 8), casefold=True)


def _decode_bytes(written: str) -> Iterator[str]:
    numbers = [int(each, 16 if "x" in each else 10) for each in written.replace(",", " ").split()]
    if max(numbers, default=_BYTE) < _BYTE:
        yield _read_bytes(bytes(numbers))


def _read_quoted(written: str) -> str:
    return _read_bytes(bytes.fromhex(written.replace("=", "")))


def _drop(_: str) -> str:
    return ""


def _read_sign(written: str) -> str:
    return {"b": "+", "f": "/", "d": "=", "/": "/"}[written[-1].lower()]


_JOINED: Final = ((_BROKEN, _drop), (_QUOTED_PRINTABLE, _read_quoted), (_PIECES, _drop))
_CODES: Final = ((_WORD_OF_CODE, _decode_word), (_BYTES, _decode_bytes))
_IN_TOKENS: Final = ((_WRAPPED, _drop), (_IN_URL, _read_sign), (_HEX_APART, _drop))
_ESCAPES: Final = (  # from the outside in: HTML quotes a URL, and a URL a text as it is written
    (_HTML, _read_html),
    (_URL_ESCAPE, _read_url),
    (_BACKSLASH, _read_backslash),
)
