"""Requests: the approvals as they are kept in a store, each in a record of its own, which is the authority of its use.

==========  ===================================================================================================
``ap/…``    an approval: pending → approved → begun → ended with its answer. It is changed only as it was read
``ax/…``    is there until the time of an approval is over: to decide, then, from the decision on, to run it. So that is
            a time of the store, and a process whose clock is ahead lets no approval expire
``ai/…``    the ids of the approvals for strictly equal calls, so that a repeated call finds its own
``ak``      the store's own secret: without it no argument is found from the name of an index
``a/…``     approvals of the release before. One moves to a record of its own when it is first changed
==========  ===================================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from secrets import token_bytes, token_hex
from typing import Any, Literal, TypeAlias, cast

import attrs

from ..base import timing
from ..engine.call import ValidCall, make_uuid
from ..engine.call_state import StateKey
from ..once import intent_of, join_digest
from ..stores import Change, Entry, Store, StoreError
from ..stores.batched import get_each

# pending: it waits. approved, rejected: it is decided. expired: the time to decide, or to run it, is over. changed: it
# was not run, for the tool or the rules differ from what the person saw. already decided: the answer to a decision that
# came too late; the record is unchanged. A record of an approved call says begun or ended once it was used.
State: TypeAlias = Literal["pending", "approved", "rejected", "expired", "changed", "already decided"]
RESUMED: StateKey[str] = StateKey("toolcall-pipeline.resumed")  # the id of the approval that a call is resumed by
_VERSION = 2
_RECORD, _TIME, _INDEX, _SECRET, _OLD = "ap/", "ax/", "ai/", "ak", "a/"
_KEEP = 7 * 86400.0  # seconds for which a record is kept after its time is over
_SETTLED = 4  # approvals in an index that no call joins any more; a repeated call finds its own among them by its id
_MARKS = 1000  # of which a process remembers the index
_ID = re.compile(r"[0-9a-f]{24}(\.[0-9]{1,20})?\Z", re.ASCII)  # with a number: of the release before
Row: TypeAlias = dict[str, Any]


@attrs.frozen
class Approval:
    """A call that waits for a decision, or waited.

    Attributes:
        id: Its id.
        state: ``pending``, ``approved``, ``rejected``, ``expired`` or ``changed``; of the answer to a decision that
            came too late ``already decided``.
        tool: The name of the tool.
        arguments: The arguments as the tool would get them, as JSON values, without declared secrets. After an edit:
            the edited ones.
        principal: Who asked. "": no principal.
        conversation: Where. "": no conversation.
        reason: Why a decision is needed.
        policy: The version of the policy that asked for it. "": none.
        at: When it was asked for, in seconds since 1970-01-01 UTC.
        expires_at: When it expires, in the same unit: the time to decide, then, counted anew, the time to run it. It is
            for people, by the clock of who wrote it; what counts is the clock of the store.
        by: Who decided. "": it is not decided.
        message: The words of that person for the model. "": none.
        edited: Whether the arguments were changed by that person.
        grant: The id of the standing grant that decided. "": none did.
        ran: Whether the call began after it was approved, and may have taken effect.
        ended: Whether it has its answer, which all get who bring it again.
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
    grant: str = ""
    ran: bool = False
    ended: bool = False


def read_approval(row: Row) -> Approval:
    """A record as an `Approval`, with its state as it was read."""
    shown: Row = {field.name: row[field.name] for field in attrs.fields(Approval) if field.name in row}
    shown["state"] = state = read_state(row)
    if state in ("begun", "ended"):
        shown |= {"state": "approved", "ran": True, "ended": state == "ended"}
    return Approval(**shown)


def is_settled(row: Row) -> bool:
    """Whether no other call joins an approval any more: its answer is known to the model, or its time is over."""
    if row["state"] in ("begun", "ended"):
        return bool(row.get("collected"))
    return row["state"] == "changed" or is_over(row)


def is_over(row: Row) -> bool:
    """Whether the time to decide on an approval, or then to run it, was over when it was read."""
    if "over" in row:
        return bool(row["over"])
    return bool(timing.wall_time() >= row["expires_at"])  # written just now, or by a release before


def read_state(row: Row) -> str:
    """The state of a record as it was read: as that of an `Approval`, or ``begun`` or ``ended``."""
    return "expired" if row["state"] in ("pending", "approved") and is_over(row) else str(row["state"])


def decide(row: Row, state: State, by: str, message: str = "", **more: Any) -> Row:
    """The record of an approval once it is decided. The time to run it counts from now on."""
    now = timing.wall_time()
    about = {"by": by, "message": message, "decided_at": now, "expires_at": now + row["expires"]}
    return {**row, "state": state, **about, **more}


def make_id() -> str:
    """A random id: nothing of a call can be found from it."""
    return token_hex(12)


@attrs.frozen
class Kept:
    """A record as it was read."""

    row: Row
    version: int | None  # None: it is not written yet
    beside: tuple[Change, ...] = ()  # what a write needs: it leaves the release before


@attrs.define(eq=False)
class Requests:
    """The records in one store.

    Args:
        store: The store.
    """

    store: Store
    _secret: bytes = attrs.field(init=False, default=b"", repr=False)
    # By mark, what its index said last: these records are read with it, and again if it says something else by then.
    _ids: dict[str, list[str]] = attrs.field(init=False, factory=dict[str, list[str]], repr=False)

    async def mark(self, call: ValidCall, version: str) -> str:
        """The digest of what a person decides on: equal for strictly equal calls of one caller under one policy.

        Raises:
            StoreError: The store gave no answer.
        """
        while not self._secret:
            entry = await self.store.get(_SECRET)
            if entry is not None:
                self._secret = entry.value
            else:
                await self.store.write(Change(_SECRET, token_bytes(32), None))
        asked = intent_of(call, call.params, self._secret).strict or make_uuid()  # what has no form equals nothing
        return join_digest(asked, version, secret=self._secret)

    async def find(self, id_: object) -> Kept | None:
        """An approval; None: there is no such id, whatever it is.

        Raises:
            StoreError: The store gave no answer, or a later release wrote the record.
        """
        return (await self.find_with(id_))[0]

    async def find_with(self, id_: object, *keys: str) -> tuple[Kept | None, Sequence[Entry | None]]:
        """As `find`, with what further keys hold, in one step."""
        if not isinstance(id_, str) or _ID.match(id_) is None:
            return None, [None for _ in keys]
        (found,), others = await self._find_each([id_], *keys)
        if found is not None:
            return found, others
        for name in (id_.partition(".")[0], id_) if "." in id_ else ():
            old = await self.store.get(_OLD + name)
            rows = [] if old is None else _read_old(old)
            row = next((each for each in rows if each["id"] == id_), None)
            if old is not None and row is not None:
                left = json.dumps({"rows": [each for each in rows if each is not row]}).encode()
                renewed = _renew(row)
                change = Change(_OLD + name, left, old.version, renewed["expires"] + _KEEP)
                return Kept(renewed, None, (change,)), others
        return None, others

    async def _find_each(self, ids: Sequence[str], *keys: str) -> tuple[list[Kept | None], Sequence[Entry | None]]:
        """The records of some ids, and what further keys hold, read before them, in one step."""
        # The time of a record after it: a decision begins it anew.
        names = [kind + id_ for id_ in ids for kind in (_RECORD, _TIME)]
        read = await get_each(self.store, *keys, *names) if names or keys else ()
        at = len(keys)
        return [_keep(*pair) for pair in zip(read[at::2], read[at + 1 :: 2], strict=True)], read[:at]

    async def write(self, kept: Kept, row: Row, *beside: Change) -> Kept | None:
        """Replace a record, with further changes, and begin its time anew with a decision.

        Returns:
            None: it has changed since it was read.

        Raises:
            StoreError: The store gave no answer.
        """
        is_decision = kept.row["state"] == "pending" and row["state"] != "pending"
        changes = _start(row, kept.version) if is_decision else (_change(row, kept.version),)
        version = await self.store.write(*changes, *kept.beside, *beside)
        return None if version is None else Kept(row, version)

    async def find_equal(self, mark: str, key: str) -> tuple[Entry | None, Entry | None, list[Kept]]:
        """The entry of another key, read with the index of a mark; the index; and its approvals, oldest first.

        Raises:
            StoreError: As `find`.
        """
        hoped = self._ids.get(mark, [])
        records, (other, entry) = await self._find_each(hoped, key, _INDEX + mark)
        ids: list[str] = [] if entry is None else json.loads(entry.value)
        here = [id_ for id_ in ids if "." not in id_]
        if here != hoped:
            records, _ = await self._find_each(here)
            self._remember(mark, here)
        found = dict(zip(here, records, strict=True))
        each = [found[id_] if id_ in found else await self.find(id_) for id_ in ids]
        return other, entry, [kept for kept in each if kept is not None]

    async def add(self, row: Row, index: Entry | None, equal: list[Kept]) -> Kept | None:
        """Write a new approval and its index; None: the index has changed since it was read.

        Raises:
            StoreError: The store gave no answer.
        """
        settled = [each.row["id"] for each in equal if is_settled(each.row)][:-_SETTLED]
        ids = [each.row["id"] for each in equal if each.row["id"] not in settled]
        names = [*ids, row["id"]]
        expect, kept_for = None if index is None else index.version, 2 * row["expires"] + _KEEP
        change = Change(_INDEX + row["mark"], json.dumps(names).encode(), expect, kept_for)
        version = await self.store.write(*_start(row, None), change)
        if version is None:
            return None
        self._remember(row["mark"], names)
        return Kept(row, version)

    def _remember(self, mark: str, ids: list[str]) -> None:
        if len(self._ids) >= _MARKS:
            self._ids = {}
        self._ids[mark] = ids

    async def list(self) -> AsyncIterator[Row]:
        """All approvals, in no order.

        Raises:
            StoreError: As `find`.
        """
        rows = [_read(entry) async for _, entry in self.store.scan(_RECORD)]
        timed = {key.removeprefix(_TIME) async for key, _ in self.store.scan(_TIME)}
        for row in rows:
            yield {**row, "over": row["id"] not in timed} if row.get("timed") else row
        async for row in self.list_old():
            yield row

    async def list_old(self) -> AsyncIterator[Row]:
        """Those of the release before.

        Raises:
            StoreError: The store gave no answer.
        """
        async for _, entry in self.store.scan(_OLD):
            for row in _read_old(entry):
                yield _renew(row)


def _read(entry: Entry) -> Row:
    row = cast("Row", json.loads(entry.value))
    if row["v"] > _VERSION:
        raise StoreError("a later release of toolcall-pipeline has written to the approvals: this one cannot go on")
    return row


def _keep(entry: Entry | None, time: Entry | None) -> Kept | None:
    """A record with whether its time is over; an ended one has none any more."""
    if entry is None:
        return None
    row = _read(entry)
    if row.get("timed") and row["state"] != "ended":
        row["over"] = time is None
    return Kept(row, entry.version)


def _read_old(entry: Entry) -> list[Row]:
    return cast("list[Row]", json.loads(entry.value)["rows"])


def _renew(row: Row) -> Row:
    """A row of the release before as one of this. Of a call that began there it is not known how it ended."""
    began = {"state": "begun", "owner": ""} if row.pop("ran", False) else {}
    return {**row, **began, "v": _VERSION, "mark": "", "expires": row["expires_at"] - row["at"]}


def _change(row: Row, version: int | None) -> Change:
    kept = {name: value for name, value in row.items() if name != "over"}
    value = json.dumps({**kept, "v": _VERSION}, separators=(",", ":")).encode()
    return Change(_RECORD + row["id"], value, version, row["expires"] + _KEEP)


def _start(row: Row, version: int | None) -> tuple[Change, Change]:
    """The changes by which the time of an approval begins."""
    return _change({**row, "timed": True}, version), Change(_TIME + row["id"], b"", ttl=row["expires"])
