"""TomlFile: settings that a person wrote, and the line of each mistake in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import attrs

from .setup_error import SetupError

T = TypeVar("T")
IN_CODE = "in code"  # marks a field that no file can set
_MAX_BYTES = 1_000_000  # of a file that a person writes
_OWNER = re.compile(r"^\w+: (?=`)")  # in front of the option, in the text of a SetupError
_OPTION = re.compile(r"`(\w+)`")


@attrs.frozen
class TomlFile:
    """A file of settings, parsed."""

    path: Path
    text: str = attrs.field(repr=False)
    version: str  # a digest of its bytes, 12 hexadecimal digits
    found: Mapping[str, Any] = attrs.field(repr=False)  # the tables and values in it

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and parse a file; a SetupError begins with the file and, if it has one, the line."""
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
            if len(raw) > _MAX_BYTES:
                raise SetupError(f"{path}: the file is longer than {_MAX_BYTES:,} bytes")
        except OSError as exc:
            raise SetupError(f"{path}: {exc.strerror}") from exc
        try:
            text = raw.decode()
        except UnicodeDecodeError as exc:
            line = raw[: exc.start].count(b"\n") + 1
            raise SetupError(f"{path}:{line}: the file is not UTF-8") from exc
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            line = _line_of_error(str(exc), text)
            raise SetupError(f"{path}:{line}: {str(exc).partition(' (at ')[0]}") from exc
        except (ValueError, RecursionError) as exc:  # a number of too many digits; too many levels
            told = "the value is nested too deeply" if isinstance(exc, RecursionError) else str(exc).partition(";")[0]
            raise SetupError(f"{path}:{_find_odd_line(text)}: {told}") from exc
        return cls(path, text, sha256(raw).hexdigest()[:12], found)

    def locate(self, *keys: str | int) -> str:
        """The file and the line of a key, as ``policy.toml:9: ``."""
        return f"{self.path}:{find_line(self.text, keys)}: "

    def mistake(self, text: str, *keys: str | int) -> SetupError:
        """The error for a mistake at a key."""
        return SetupError(self.locate(*keys) + text)

    def table(self, value: object, *keys: str | int) -> dict[str, Any]:
        """A value that has to be a table, else SetupError."""
        if not isinstance(value, dict):
            raise self.mistake(f"`{'.'.join(map(str, keys))}` must be a table, not {value!r}", *keys)
        return cast("dict[str, Any]", value)

    def tables(self, value: object, *keys: str | int) -> list[dict[str, Any]]:
        """A value that has to be an array of tables, as ``[[name]]`` makes it, else SetupError."""
        if not isinstance(value, list):
            raise self.mistake(f"`{'.'.join(map(str, keys))}` must be an array of tables, not {value!r}", *keys)
        return [self.table(each, *keys, place) for place, each in enumerate(cast("list[Any]", value))]

    def check_names(self, kind: type, given: Mapping[str, Any], *keys: str | int) -> None:
        """Raise SetupError for an option that a class of attrs does not have."""
        known = [field.name for field in attrs.fields(kind) if field.init and IN_CODE not in field.metadata]
        for name in given:
            if name not in known:
                raise self.mistake(f"unknown option `{name}`; known: {', '.join(known)}", *keys, name)

    def make(self, kind: type[T], given: Mapping[str, Any], *keys: str | int, **in_code: Any) -> T:
        """Make an object of a class of attrs from a table; SetupError if an option is unknown or wrong."""
        self.check_names(kind, given, *keys)
        try:
            return kind(**given, **in_code)
        except SetupError as exc:
            told = _OWNER.sub("", str(exc)).replace(" or None,", ",")
            option = _OPTION.search(told)
            name = option[1] if option else ""
            if name not in given:  # the default of the class that checks it
                name = next((each for each in given if each.endswith(f"_{name}")), name)
                told = told.replace(f"`{option[1]}`", f"`{name}`", 1) if option else told
            raise self.mistake(told, *keys, *([name] if name in given else [])) from exc


def _line_of_error(told: str, text: str) -> int:
    line = re.search(r"at line (\d+)", told)
    return int(line[1]) if line else text.rstrip("\n").count("\n") + 1  # "at end of document"


def _find_odd_line(text: str) -> int:
    """Return the line where a value begins that the parser cannot read."""

    def holds(beginning: str) -> bool:
        try:
            tomllib.loads(beginning)
        except tomllib.TOMLDecodeError:
            raise
        except (ValueError, RecursionError):
            return True
        return False

    return _find_first_line(text, holds)


def find_line(text: str, keys: Sequence[str | int]) -> int:
    """Return the number of the line, from 1, where a key, a table or an item of a TOML document begins.

    The parser reports no places. So beginnings of the document are parsed, until the shortest one that holds the key is
    found.
    """

    def holds(beginning: str) -> bool:
        found: Any = tomllib.loads(beginning)
        for key in keys:
            if isinstance(key, int):
                items = cast("list[Any]", found) if isinstance(found, list) else []
                found = items[key] if key < len(items) else None
            else:
                found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found is not None

    return _find_first_line(text, holds)


def _find_first_line(text: str, holds: Callable[[str], bool]) -> int:
    """The line after the longest beginning of a document for which something does not hold yet, by bisection."""
    lines = text.split("\n")
    least, most = 0, len(lines)  # it does not hold for the first, and does for the second
    while most - least > 1:
        middle = (least + most) // 2
        for number in (*range(middle, least, -1), *range(middle + 1, most)):
            try:
                found = holds("\n".join(lines[:number]) + "\n")
            except tomllib.TOMLDecodeError:
                continue
            if found:
                most = number
            else:
                least = number
            break
        else:
            break
    return least + 1
