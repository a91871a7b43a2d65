"""Grants: standing permissions of a person, by tool and caller, so that nobody is asked about each call."""

from __future__ import annotations

import json
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, cast

import attrs

from ..base import timing
from ..base.options import check_type, refuse
from ..engine.call import ValidCall
from ..stores import Change, Entry, Store
from .approval_requests import make_id

GRANTS = "ag"  # the key of all grants of a store: one record, which a call reads at once


@attrs.frozen
class Grant:
    """A standing grant: calls that it covers run without a decision on each.

    Attributes:
        id: Its id.
        tool: The name of a tool, or a pattern such as ``read_*``.
        by: Who gave it.
        principal: Whose calls it covers. None: those of every caller.
        conversation: Where. None: in every conversation.
        until: When it ends, in seconds since 1970-01-01 UTC. None: when it is revoked.
        at: When it was given, in the same unit.
    """

    id: str
    tool: str
    by: str
    principal: str | None
    conversation: str | None
    until: float | None
    at: float

    def covers(self, call: ValidCall) -> bool:
        """Whether it holds for a call."""
        return (
            fnmatchcase(call.tool.name, self.tool)
            and self.principal in (None, call.principal)
            and self.conversation in (None, call.conversation)
        )


def make_grant(
    tool: str, by: str, principal: str | None, conversation: str | None, until: float | datetime | None
) -> Grant:
    """A grant from now on; SetupError if an option is of another type, or empty."""
    for name, said in (("tool", tool), ("by", by)):
        check_type("grant", name, said, str)
        if not said:
            refuse("grant", name, "a text that is not empty", said)
    for name, given in (("principal", principal), ("conversation", conversation)):
        check_type("grant", name, given, str, optional=True)
    if isinstance(until, datetime):
        if until.tzinfo is None:
            refuse("grant", "until", "a time with its zone", until)
        until = until.timestamp()
    elif until is not None and (type(until) not in (int, float) or not abs(until) < float("inf")):
        refuse("grant", "until", "a time with its zone, seconds since 1970, or None", until)
    return Grant(make_id(), tool, by, principal, conversation, until, timing.wall_time())


def read_grants(entry: Entry | None) -> list[Grant]:
    """The grants of a record that hold now, oldest first."""
    rows = [] if entry is None else cast("list[Any]", json.loads(entry.value))
    now = timing.wall_time()
    return [grant for row in rows if (grant := Grant(**row)).until is None or grant.until > now]


@attrs.frozen(eq=False)
class Grants:
    """The grants in one store.

    Args:
        store: The store.
    """

    store: Store

    async def read(self) -> tuple[Entry | None, list[Grant]]:
        """The record, and the grants that hold now, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        entry = await self.store.get(GRANTS)
        return entry, read_grants(entry)

    async def write(self, entry: Entry | None, grants: list[Grant], *beside: Change) -> bool:
        """Replace them, with further changes; False: they have changed since they were read.

        Raises:
            StoreError: The store gave no answer.
        """
        value = json.dumps([attrs.asdict(each) for each in grants]).encode()
        change = Change(GRANTS, value, None if entry is None else entry.version)
        return await self.store.write(change, *beside) is not None
