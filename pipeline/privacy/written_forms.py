"""In which other ways a tool may write a secret: parts of it that are secrets themselves, and other forms of the whole.

A client quotes the password of a URL alone, a database prints a card's number in groups, a repr of a date has commas,
and a file system has another Unicode form of a name.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import a85encode, b64decode, b85encode
from collections.abc import Iterator
from datetime import date, datetime
from typing import Final
from urllib.parse import unquote

_PART: Final = 6  # characters of a part of a secret, for it to be a secret itself
_DIGITS: Final = 8  # of a number that may be written in groups
_LONGEST_BYTES: Final = 100  # characters of a text that is looked for as a list of numbers
_LONGEST_NUMBER: Final = 40  # characters of a text that is read as a number, a date or a UUID
# A URL as clients quote it in their errors: its password alone, and what follows the host without the host.
_URL: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}:)?//(?:(?P<user>[^/?#@\s:]*)(?::(?P<password>[^/?#\s]*))?@)?[^/?#\s]*"
    r"(?P<target>(?:/[^?#\s]*)?(?:\?(?P<query>[^#\s]*))?)(?:#(?P<fragment>\S*))?",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"[^\s:@/]+:(?P<password>[^\s@]+)@[^\s@/]+\Z")  # as in a URL, without its scheme
# An Authorization header.
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z-]{2,20}) +(?P<credentials>\S+)\Z")
# A data source name or a cookie: values under names.
_PAIR: Final = re.compile(r"(?:^|[;&,\s])[\w .-]{1,40}=\s*(?P<value>'[^']*'|\"[^\"]*\"|[^;&,\s]*)")
_MAX_PAIRS: Final = 20
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z|[0-9a-f]{32}\Z", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?\d+\Z", re.ASCII)
_DECIMAL: Final = re.compile(r"-?\d+\.\d+\Z", re.ASCII)
_GROUPED: Final = re.compile(r"\+?\(?\d[\d ()./-]*\d\Z", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*\Z", re.ASCII)
_DATES: Final = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d")
_QUOTES: Final = (("'", "''"), ('"', '""'), ("'", "'\"'\"'"))  # inside of quotes: in SQL, in CSV, in a shell
_UNICODE_FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")


def list_parts(text: str) -> set[str]:
    """List the parts of a secret that a tool may tell alone, and that are secrets themselves."""
    parts = set[str | None]()
    if (url := _URL.match(text)) is not None:
        values = [value for part in ("query", "fragment") for value in _list_values(url[part] or "")]
        segments = (url["target"] or "").partition("?")[0].split("/")
        parts |= {url["password"], url["target"], *values, *(each for each in segments if _is_token(each))}
        if not url["password"]:
            parts.add(url["user"])
    elif (info := _USER_INFO.match(text)) is not None:
        parts.add(info["password"])
    elif (header := _SCHEME.match(text)) is not None:
        parts |= {header["credentials"], *_read_basic(header)}
    elif "=" in text:
        parts.update(_list_values(text))
    parts |= {unquote(each) for each in parts if each and "%" in each}
    return {each for each in parts if each and len(each) >= _PART}


def _is_token(segment: str) -> bool:
    """Whether a part of a path looks made up, and not like a word."""
    return len(segment) > _PART and not (segment.isalpha() and (segment.islower() or segment.istitle()))


def _list_values(text: str) -> list[str]:
    found = (match["value"].strip("'\"") for _, match in zip(range(_MAX_PAIRS), _PAIR.finditer(text), strict=False))
    return [*found]


def _read_basic(header: re.Match[str]) -> list[str]:
    if header["scheme"].lower() != "basic":
        return []
    try:
        user_info = b64decode(header["credentials"], validate=True).decode()
    except ValueError:
        return []
    return [user_info, user_info.partition(":")[2]]


def list_unicode_forms(text: str) -> list[str]:
    """List a text as it is, and in the forms of Unicode that differ from it."""
    if text.isascii():
        return [text]
    return [*dict.fromkeys([text, *(unicodedata.normalize(form, text) for form in _UNICODE_FORMS)])]


def list_other_forms(text: str) -> list[str]:
    """List the other ways to write a secret: as a list of bytes, and the number, date or identifier that it holds."""
    forms = list[str]()
    if _PART <= len(text) <= _LONGEST_BYTES:  # as bytes are printed that were made a list
        numbers = [*map(str, text.encode(errors="replace"))]
        forms += [", ".join(numbers), ",".join(numbers)]
        forms += [encode(text.encode(errors="replace")).decode() for encode in (a85encode, b85encode)]
    forms += [text.replace(quote, written) for quote, written in _QUOTES if quote in text]
    if len(text) <= _LONGEST_NUMBER:
        forms += _write_number(text) if any(map(str.isdigit, text)) else ()
    return [each for each in forms if each != text]


def _write_number(text: str) -> Iterator[str]:
    """Yield what is equal to a text that holds a number, a date, a time or a UUID."""
    if _UUID.match(text):
        digits = text.replace("-", "").lower()
        yield digits
        yield "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if _DATE.match(text) or _TIME.match(text):
        yield from _write_date(text)
    elif _NUMBER.match(text) and text.lstrip("-0"):
        number = int(text)
        yield from (f"{number:,}", f"{number:_}", f"{number:,}".replace(",", " "), f"{number:,}".replace(",", "."))
        yield str(float(number))
    elif _DECIMAL.match(text):
        number_ = float(text)
        yield from (str(number_), f"{number_:,}", f"{number_:.2f}", f"{number_:,.2f}")
        if number_.is_integer():
            yield str(int(number_))
    elif "e" in text.lower():
        yield from _write_exponent(text)
    if _GROUPED.match(text) and not _DATE.match(text):
        digits = "".join(filter(str.isdigit, text))
        if len(digits) >= _DIGITS:
            groups = [digits[at : at + 4] for at in range(0, len(digits), 4)]
            yield from (digits, " ".join(groups), "-".join(groups), "_".join(groups))


def _write_exponent(text: str) -> Iterator[str]:
    try:
        number = float(text)
    except ValueError:
        return
    if number.is_integer():
        yield str(int(number))


def _write_date(text: str) -> Iterator[str]:
    try:
        if _DATE.match(text):
            day = date.fromisoformat(text)
            yield from (repr(day), *(day.strftime(each) for each in _DATES))
        else:
            moment = datetime.fromisoformat(text)
            yield from (
                moment.isoformat(),
                moment.isoformat(" "),
                repr(moment),
                moment.isoformat().replace("+00:00", "Z"),
            )
    except ValueError:
        return
