"""Switches: what operators have paused or disabled. All of a store are one record, which each process reads whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, cast
from unicodedata import normalize

import attrs

from ..engine.errors import Unavailable
from ..stores import Entry, StoreError

State: TypeAlias = Literal["paused", "disabled"]
KEY: Final = "sw"
_VERSION: Final = 1
_EVERYTHING: Final = ("", "")


def fold_name(name: str) -> str:
    """The form in which two names are equal that may mean one thing or person: a doubt costs a refusal."""
    return normalize("NFKC", name).casefold().strip()


@attrs.frozen
class Switch:
    """One person's switch: it closes a tool, a principal's calls, or everything.

    Attributes:
        state: ``paused`` or ``disabled``.
        tool: The name of the tool. None: not one tool.
        principal: Whose calls. None, with ``tool`` None as well: all calls.
        by: Who closed it.
        why: Why, in that person's words.
        at: When, in seconds since 1970-01-01 UTC by the clock of that process. It decides nothing.
        retry_after: Seconds after which a caller should try again. None: not known.
    """

    state: State
    tool: str | None
    principal: str | None
    by: str
    why: str
    at: float
    retry_after: float | None = None

    @property
    def target(self) -> tuple[str, str]:
        """Equal for switches of one thing, however its name is written."""
        return fold_name(self.tool or ""), fold_name(self.principal or "")

    def __str__(self) -> str:
        if self.tool is None and self.principal is None:
            return "everything"
        return f"tool {self.tool!r}" if self.principal is None else f"principal {self.principal!r}"


class Switched(NamedTuple):
    """The effect of one request of an operator.

    Attributes:
        changed: Whether anything changed.
        standing: The switches that stand for that tool, principal or everything now, oldest first. Empty: it is open,
            unless another kind of switch, or code, keeps it closed.
    """

    changed: bool
    standing: tuple[Switch, ...]


@attrs.frozen
class Standing:
    """All switches that stand, oldest first, and what they close."""

    each: tuple[Switch, ...] = ()
    _by_target: dict[tuple[str, str], Switch] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_by_target", {each.target: each for each in reversed(self.each)})

    @classmethod
    def read(cls, entry: Entry | None) -> Self:
        """Read the record of a store; StoreError if this release cannot read it."""
        if entry is None:
            return cls()
        try:
            kept: Any = json.loads(entry.value)
            rows = cast("list[Any]", kept["switches"] if kept["v"] == _VERSION else None)
            return cls(tuple(Switch(**row) for row in rows))
        except (ValueError, TypeError, KeyError) as exc:
            raise StoreError("the switches in the store are none that this release can read") from exc

    def write(self) -> bytes:
        """The record."""
        return json.dumps({"v": _VERSION, "switches": [attrs.asdict(each) for each in self.each]}).encode()

    def find_tool(self, tool: str) -> Unavailable | None:
        """Why a tool is closed to everybody; None: it is not."""
        if not self.each:
            return None
        found = self._by_target.get(_EVERYTHING) or self._by_target.get((fold_name(tool), ""))
        return None if found is None else Unavailable(tool, found.state, found.retry_after)

    def find(self, tool: str, principal: object) -> Unavailable | None:
        """Why a tool is closed to who asks; None: it is not."""
        if (why := self.find_tool(tool)) is not None or not (self.each and principal):
            return why
        found = self._by_target.get(("", fold_name(str(principal))))
        return None if found is None else Unavailable(tool, found.state, found.retry_after)

    def at(self, target: tuple[str, str]) -> tuple[Switch, ...]:
        """The switches of one thing."""
        return tuple(each for each in self.each if each.target == target)

    def with_(self, switch: Switch) -> Standing:
        """With one more switch, in place of an earlier one of that person."""
        return Standing((*(each for each in self.each if not _is_alike(each, switch)), switch))

    def without(self, switch: Switch) -> Standing:
        """Without that person's switch like it; one who has none lifts those of all others."""
        alike = [each for each in self.each if each.state == switch.state and each.target == switch.target]
        own = [each for each in alike if _is_alike(each, switch)]
        return Standing(_leave_out(self.each, own or alike))


def _is_alike(one: Switch, other: Switch) -> bool:
    return one.state == other.state and one.target == other.target and fold_name(one.by) == fold_name(other.by)


def _leave_out(each: Iterable[Switch], gone: list[Switch]) -> tuple[Switch, ...]:
    return tuple(one for one in each if one not in gone)
