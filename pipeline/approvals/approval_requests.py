"""Requests: the approvals of one kind of call, as they are kept in a store.

The requests for one intent, one version of the tool's schema and one version of the policy stand in one record, so a
change of one of them is one write. A record is changed only if it is still as it was read. Of the requests that no call
joins any more it holds the last few; older ones move to records of their own, so that the next one costs no more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs

from ..base import timing
from ..engine.call import ValidCall, make_uuid
from ..engine.call_state import StateKey
from ..once import digest, intent_of, join_digest
from ..stores import Change, Entry, Store

# pending: it waits. approved, rejected: it is decided. expired: the time to decide, or to run it, is over. already
# decided: the answer to a decision that came too late; the record is unchanged.
State: TypeAlias = Literal["pending", "approved", "rejected", "expired", "already decided"]
RESUMED: StateKey[str] = StateKey("toolcall-pipeline.resumed")  # the id of the approval that a call is resumed by
_PREFIX = "a/"
_KEEP = 7 * 86400.0  # seconds after its last change that a record is kept
_SETTLED = 4  # requests in a record that no call joins any more; a repeated call finds its own among them by its id
_DIGITS = 24  # hexadecimal digits of a name


@attrs.frozen
class Approval:
    """A call that waits for a decision, or waited.

    Attributes:
        id: Its id.
        state: ``pending``, ``approved``, ``rejected`` or ``expired``; of the answer to a decision that came too late
            ``already decided``.
        tool: The name of the tool.
        arguments: The arguments as the tool would get them, as JSON values, without declared secrets. After an edit:
            the edited ones.
        principal: Who asked. "": no principal.
        conversation: Where. "": no conversation.
        reason: Why a decision is needed.
        policy: The version of the policy that asked for it. "": none.
        at: When it was asked for, in seconds since 1970-01-01 UTC.
        expires_at: When it expires, in the same unit.
        by: Who decided. "": it is not decided.
        message: The words of that person for the model. "": none.
        edited: Whether the arguments were changed by that person.
        ran: Whether the call began after it was approved.
    """

    id: str
    state: State
    tool: str
    arguments: Mapping[str, Any]
    principal: str
    conversation: str
    reason: str
    policy: str
    at: float
    expires_at: float
    by: str = ""
    message: str = ""
    edited: bool = False
    ran: bool = False


Row: TypeAlias = dict[str, Any]


def name_request(call: ValidCall, version: str) -> str:
    """The name of the record for calls like this one: other arguments, callers, schemas or policies have another."""
    schema = digest(dict(call.tool.parameters.schema))
    asked = intent_of(call, call.params).strict or make_uuid()  # params without a form are equal to none
    return join_digest(asked, schema, version)[:_DIGITS]


def read_approval(row: Row) -> Approval:
    """A row of a record as an `Approval`, with its state by the clock."""
    shown: Row = {field.name: row[field.name] for field in attrs.fields(Approval) if field.name in row}
    if row["state"] in ("pending", "approved") and not row.get("ran") and timing.wall_time() >= row["expires_at"]:
        shown["state"] = "expired"
    return Approval(**shown)


def is_settled(row: Row) -> bool:
    """Whether no other call joins a request any more: its answer is known to the model, or its time is over."""
    is_over = timing.wall_time() >= row["expires_at"] and not row.get("ran")
    return bool(row.get("collected")) or is_over


@attrs.frozen(eq=False)
class Requests:
    """The records in one store.

    Args:
        store: The store.
    """

    store: Store

    async def read(self, name: str) -> tuple[Entry | None, list[Row]]:
        """The rows of a record, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        entry = await self.store.get(_PREFIX + name)
        return entry, [] if entry is None else cast("list[Row]", json.loads(entry.value)["rows"])

    async def write(self, name: str, entry: Entry | None, rows: list[Row], *beside: Change) -> bool:
        """Replace the rows of a record, with further changes; False: one of them has changed since it was read.

        Raises:
            StoreError: The store gave no answer.
        """
        moved = [row for row in rows if is_settled(row)][:-_SETTLED] if len(rows) > _SETTLED else []
        kept = [row for row in rows if row not in moved] if moved else rows
        changes = [_change(name, kept, None if entry is None else entry.version)]
        changes += [_change(row["id"], [row], None) for row in moved]
        return await self.store.write(*changes, *beside) is not None

    async def find(self, id_: str) -> tuple[str, Entry | None, list[Row], Row | None]:
        """The record of an approval with its name, and the approval's row; None without one.

        Raises:
            StoreError: The store gave no answer.
        """
        for name in (id_.partition(".")[0], id_):  # the second one is that of an older request
            entry, rows = await self.read(name)
            row = next((row for row in rows if row["id"] == id_), None)
            if row is not None:
                return name, entry, rows, row
        return id_, None, [], None

    async def list(self) -> AsyncIterator[Row]:
        """All rows, in no order.

        Raises:
            StoreError: The store gave no answer.
        """
        async for _, entry in self.store.scan(_PREFIX):
            for row in json.loads(entry.value)["rows"]:
                yield row


def _change(name: str, rows: list[Row], version: Any) -> Change:
    latest = max((row["expires_at"] for row in rows), default=0.0) - timing.wall_time()
    value = json.dumps({"rows": rows}, separators=(",", ":")).encode()
    return Change(_PREFIX + name, value, version, max(latest, 0.0) + _KEEP)
