"""The file that a `Policy` is read from, in TOML. A mistake in it is reported with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs

from ..errors import SetupError
from .policy import IN_CODE, Policy, RelayLimits, TelemetryPolicy, ToolPolicy

T = TypeVar("T")
_MAX_BYTES = 1_000_000  # of a file that a person writes
_OWNER = re.compile(r"^\w+: (?=`)")  # in front of the option, in the text of a SetupError
_OPTION = re.compile(r"`(\w+)`")


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        SetupError: The file cannot be read, or something in it is wrong. The text begins with the file and the line.
    """
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
    return _PolicyReader(path, text).read(found)


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


@attrs.frozen
class _PolicyReader:
    path: Path
    text: str

    def read(self, found: Mapping[str, Any]) -> Policy:
        given = dict(found)
        tools = {
            name: self._make(ToolPolicy, self._table(each, "tools", name), "tools", name)
            for name, each in self._table(given.pop("tools", {}), "tools").items()
        }
        limits = self._make(RelayLimits, self._table(given.pop("limits", {}), "limits"), "limits")
        telemetry = None
        if "telemetry" in given:
            telemetry = self._make(TelemetryPolicy, self._table(given.pop("telemetry"), "telemetry"), "telemetry")
        redact = given.get("redact", [])
        if not isinstance(redact, list):
            raise self._mistake(f"`redact` must be an array of names, not {redact!r}", "redact")
        given["redact"] = tuple(cast("list[Any]", redact))
        self._check_names(Policy, given)
        made = self._make(Policy, {**given, "tools": tools, "limits": limits, "telemetry": telemetry})
        return attrs.evolve(made, locate=self._locate)

    def _locate(self, *where: str) -> str:
        return f"{self.path}:{find_line(self.text, where)}: "

    def _table(self, value: object, *where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._mistake(f"`{'.'.join(where)}` must be a table, not {value!r}", *where)
        return cast("dict[str, Any]", value)

    def _check_names(self, kind: type, given: Mapping[str, Any], *where: str) -> None:
        known = [field.name for field in attrs.fields(kind) if IN_CODE not in field.metadata]
        for name in given:
            if name not in known:
                raise self._mistake(f"unknown option `{name}`; known: {', '.join(known)}", *where, name)

    def _make(self, kind: type[T], given: dict[str, Any], *where: str) -> T:
        self._check_names(kind, given, *where)
        try:
            return kind(**given)
        except SetupError as exc:
            told = _OWNER.sub("", str(exc)).replace(" or None,", ",")
            option = _OPTION.search(told)
            name = option[1] if option else ""
            if name not in given:  # the default of the class that checks it
                name = next((each for each in given if each.endswith(f"_{name}")), name)
                told = told.replace(f"`{option[1]}`", f"`{name}`", 1) if option else told
            raise self._mistake(told, *where, *([name] if name in given else [])) from exc

    def _mistake(self, told: str, *where: str) -> SetupError:
        return SetupError(self._locate(*where) + told)


def find_line(text: str, keys: Sequence[str]) -> int:
    """Return the number of the line, from 1, where a key or a table of a TOML document begins.

    The parser reports no places. So beginnings of the document are parsed, until the shortest one that holds the key is
    found.
    """

    def holds(beginning: str) -> bool:
        found: Any = tomllib.loads(beginning)
        for key in keys:
            found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        return found is not None

    return _find_first_line(text, holds)


def _find_first_line(text: str, holds: Callable[[str], bool]) -> int:
    """The line after the longest beginning of a document for which something does not hold yet, by bisection.

    Args:
        text: The document. For the whole of it, it holds.
        holds: Raises TOMLDecodeError for a beginning that ends within a value.
    """
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
