"""The formats of text, as a model is asked for them: ``date YYYY-MM-DD``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class FormatName(NamedTuple):
    """The name of a format.

    Attributes:
        one: The name of one value: "date YYYY-MM-DD".
        many: The name of several: "dates YYYY-MM-DD".
        article: "a" or "an", for one value.
    """

    one: str
    many: str
    article: str = "a"


WHOLE: Final = r"[+-]?[0-9]+"
_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_UNSIGNED: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
_DAY: Final = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
# The patterns of texts for which JSON Schema has no format.
DECIMAL: Final = f"^{_NUMBER}$"
FRACTION: Final = rf"^({_NUMBER}|{WHOLE}/[0-9]*[1-9][0-9]*)$"
COMPLEX: Final = rf"^([+-]?{_UNSIGNED}|([+-]?{_UNSIGNED})?[+-]({_UNSIGNED})?j|({_UNSIGNED})?j)$"
NAIVE_DATETIME: Final = f"^{_DAY}[Tt ]{_CLOCK}$"  # the format "date-time" requires a zone

_DATE: Final = FormatName("date YYYY-MM-DD", "dates YYYY-MM-DD")
_EMAIL: Final = FormatName("email address", "email addresses", "an")
_HOST: Final = FormatName("host name", "host names")
_URL: Final = FormatName("URL", "URLs")
_RELATIVE: Final = FormatName("URL or relative reference", "URLs or relative references")
_UUID: Final = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_TEXT: Final = FormatName("string", "strings")
_BASE64: Final = FormatName("base64 text", "base64 texts")
_IP: Final = FormatName("IP address", "IP addresses", "an")
# JSON Schema Validation 2020-12, section 7.3; of OpenAPI 3.1, section 4.4; and of pydantic.
FORMATS: Final[Mapping[str, FormatName]] = {
    "date": _DATE,
    "date-time": FormatName("datetime YYYY-MM-DDTHH:MM:SSZ", "datetimes YYYY-MM-DDTHH:MM:SSZ"),
    "time": FormatName("time HH:MM:SSZ", "times HH:MM:SSZ"),
    "duration": FormatName("duration such as P1DT2H30M", "durations such as P1DT2H30M"),
    "uuid": FormatName(f"UUID {_UUID}", f"UUIDs {_UUID}"),
    **{f"uuid{n}": FormatName(f"UUID {_UUID} of version {n}", f"UUIDs {_UUID} of version {n}") for n in range(1, 9)},
    "email": _EMAIL,
    "idn-email": _EMAIL,
    "hostname": _HOST,
    "idn-hostname": _HOST,
    "ipv4": FormatName("IPv4 address", "IPv4 addresses", "an"),
    "ipv6": FormatName("IPv6 address", "IPv6 addresses", "an"),
    "ipvanyaddress": _IP,
    "uri": _URL,
    "iri": _URL,
    "url": _URL,
    "uri-reference": _RELATIVE,
    "iri-reference": _RELATIVE,
    "uri-template": FormatName("URI template", "URI templates"),
    "json-pointer": FormatName("JSON pointer such as /a/0", "JSON pointers such as /a/0"),
    "relative-json-pointer": FormatName("relative JSON pointer such as 1/a", "relative JSON pointers such as 1/a"),
    "regex": FormatName("regular expression", "regular expressions"),
    "path": FormatName("path", "paths"),
    "file-path": FormatName("path of a file", "paths of files"),
    "directory-path": FormatName("path of a directory", "paths of directories"),
    "fraction": FormatName("fraction such as 1/3", "fractions such as 1/3"),
    "json-string": FormatName("text in JSON", "texts in JSON"),
    "byte": _BASE64,
    "base64": _BASE64,
    "base64url": FormatName("base64url text", "base64url texts"),
    "binary": _TEXT,
    "password": _TEXT,
}


_PATTERNS: Final[Mapping[str, FormatName]] = {
    DECIMAL: FormatName("decimal number such as 12.50", "decimal numbers such as 12.50"),
    FRACTION: FormatName("fraction such as 1/3", "fractions such as 1/3"),
    COMPLEX: FormatName("complex number such as 1+2j", "complex numbers such as 1+2j"),
    NAIVE_DATETIME: FormatName("datetime YYYY-MM-DDTHH:MM:SS", "datetimes YYYY-MM-DDTHH:MM:SS"),
}
_MAX_PATTERN = 60  # characters; a longer pattern helps no model


def name_text(node: Mapping[str, Any]) -> FormatName:
    """Return the words for a text: its format, or else a short pattern that it must match."""
    form, pattern = node.get("format"), node.get("pattern")
    if isinstance(form, str):
        return FORMATS.get(form) or FormatName(f"string ({form})", f"strings ({form})")
    if isinstance(pattern, str):
        if (found := _PATTERNS.get(pattern)) is not None:
            return found
        if len(pattern) <= _MAX_PATTERN and not {"<", ">"} & {*pattern}:  # they end a hole
            return FormatName(f"string that matches {pattern}", f"strings that match {pattern}")
    return _TEXT


def describe_format(name: str) -> str:
    """Describe a value of a format: "a date YYYY-MM-DD"."""
    found = name_text({"format": name})
    return f"{found.article} {found.one}"
