"""Joining: finds the approval that a call has, or makes one that waits for a decision."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

import attrs

from ..base import timing
from ..engine.call import Call, ValidCall
from ..engine.call_state import TURN
from ..once import digest
from ..policies.facts import show_arguments
from ..privacy import make_mask, redact_arguments
from ..stage_state.switches import fold_name
from ..stores import Entry, StoreError
from .approval_requests import RESUMED, Kept, Requests, Row, is_settled, make_id, read_state
from .grants import GRANTS, Grant, read_grants

_CALLS = 100  # that join one approval, and find it by their ids
_TRIES = 1000  # of a record that others keep changing


class Joined(NamedTuple):
    """The decision that covers a call: an approval of its own or a shared one, or a standing grant.

    Attributes:
        kept: Its approval. None: a grant covers it, and nobody has to be asked, or it resumes none that there is.
        grant: The standing grant that covers it.
        is_new: Whether the approval was made for it.
    """

    kept: Kept | None
    grant: Grant | None
    is_new: bool = False


@attrs.define(eq=False)
class Joining:
    """Finds the approvals of calls, and asks for decisions."""

    requests: Requests
    expires: float
    four_eyes: bool
    # Approvals of the release before, which has no index of them. None: they were not looked for.
    _old: list[Row] | None = attrs.field(init=False, default=None, repr=False)

    async def find(self, call: ValidCall, version: str) -> Kept | None:
        """The approval that exactly this call has, with its id and in its reply; None: it has none.

        A call without an id has the one that waits for an equal call.

        Raises:
            StoreError: The store gave no answer.
        """
        _, _, equal = await self._find_equal(call, await self.requests.mark(call, version))
        if call.id:
            return _find_own(equal, _name(call))
        return next((each for each in reversed(equal) if read_state(each.row) == "pending"), None)

    async def find_resumed(self, call: ValidCall, id_: str) -> Joined:
        """The approval that a call resumes.

        Raises:
            StoreError: The store gave no answer.
        """
        kept, (grants,) = await self.requests.find_with(id_, GRANTS)
        return Joined(kept, self._find_grant(call, grants))

    async def join(self, call: ValidCall, version: str, reason: object, *, begins: bool) -> Joined:
        """The approval of a call: its own, the one that waits for an equal call, or a new one.

        None is made for a call that a standing grant covers, and none refuses it.

        Args:
            call: The call.
            version: The version of the policy.
            reason: Why a decision is needed; a text, or anything else without one.
            begins: Whether the caller runs the call at once if it is approved: then the write that it begins also
                writes that it has joined.
        """
        mark, mine = await self.requests.mark(call, version), _name(call)
        for _ in range(_TRIES):
            grant, index, equal = await self._find_equal(call, mark)
            if grant is not None:
                equal = [each for each in equal if each.row["state"] != "rejected"]
            own = _find_own(equal, mine) if call.id else None
            if own is not None and read_state(own.row) not in ("expired", "changed"):
                return Joined(own, grant)
            kept: Kept | None = None
            open_ = next((each for each in equal if _may_join(each.row, *mine)), None)
            if open_ is not None:
                row = {**open_.row, "calls": [*open_.row["calls"], mine][-_CALLS:]}
                if begins and read_state(row) == "approved" and not row.get("edited"):
                    return Joined(attrs.evolve(open_, row=row), grant)
                kept = await self.requests.write(open_, row)
            elif grant is not None:
                return Joined(None, grant)
            else:
                kept = await self.requests.add(self._make_row(call, mark, version, reason), index, equal)
            if kept is not None:
                return Joined(kept, grant, is_new=open_ is None)
        raise StoreError("busy")

    async def is_seen(self, call: ValidCall, row: Row, version: str) -> bool:
        """Whether a resumed call is what the person saw, with the params that the tool gets today."""
        if row["mark"] and not row.get("edited"):
            return bool(row["mark"] == await self.requests.mark(call, version))
        is_one = digest(row["schema"]) == digest(dict(call.tool.parameters.schema)) and row["policy"] == version
        if row.get("edited"):
            return is_one
        shown = redact_arguments(call, call.tool, show_arguments(call))  # of the release before there is no mark
        return is_one and digest(json.loads(json.dumps(shown))) == digest(row["arguments"])

    async def _find_equal(self, call: ValidCall, mark: str) -> tuple[Grant | None, Entry | None, list[Kept]]:
        """The grant and the index of a call, and the approvals for strictly equal calls, also of the release before."""
        grants, index, equal = await self.requests.find_equal(mark, GRANTS)
        if self._old is None:
            self._old = [row async for row in self.requests.list_old()]
        who = call.tool.name, call.principal, call.conversation
        known = {each.row["id"] for each in equal}
        for old in self._old:
            if (old["tool"], old["principal"], old["conversation"]) == who and old["id"] not in known and old["sent"]:
                params = call.tool.parse(old["sent"])
                meant = call.with_params(cast("Any", params)) if type(params) is dict else None
                if meant is not None and mark == await self.requests.mark(meant, old["policy"]):
                    kept = await self.requests.find(old["id"])
                    equal = equal if kept is None else [kept, *equal]
        return self._find_grant(call, grants), index, equal

    def _find_grant(self, call: ValidCall, entry: Entry | None) -> Grant | None:
        """A grant that covers a call; with ``four_eyes`` none of the one who asks."""
        found = (each for each in read_grants(entry) if each.covers(call))
        return next(
            (each for each in found if not (self.four_eyes and fold_name(each.by) == fold_name(call.principal))), None
        )

    def _make_row(self, call: ValidCall, mark: str, version: str, reason: object) -> Row:
        now = timing.wall_time()
        mask = make_mask(call, call.tool)
        told = reason if isinstance(reason, str) else ""
        return {
            "id": make_id(),
            "mark": mark,
            "state": "pending",
            "tool": call.tool.name,
            "arguments": redact_arguments(call, call.tool, show_arguments(call)),
            "sent": _as_sent(call) if mask is None else None,  # None: they hold secrets, and are not kept
            "schema": dict(call.tool.parameters.schema),
            "principal": call.principal,
            "conversation": call.conversation,
            "reason": told if mask is None else mask(told),
            "policy": version,
            "at": now,
            "expires": self.expires,
            "expires_at": now + self.expires,
            "four_eyes": self.four_eyes,
            "calls": [_name(call)],
        }


def make_call(row: Row) -> Call:
    """The call that runs: as it was stored, or as a person has changed it. Each try is a delivery of its own."""
    sent = row["edit"] if row.get("edited") else row["sent"]
    id_ = f"{row['id']}.{row['runs']}" if row.get("runs") else row["id"]
    call = Call(row["tool"], sent, id_, row["principal"], conversation=row["conversation"])
    return call.with_state(RESUMED, row["id"])


def _name(call: ValidCall) -> list[str]:
    """The reply or the turn of a call, and its id."""
    return [call.reply or call.get_state(TURN, ""), call.id]


def _find_own(equal: list[Kept], mine: list[str]) -> Kept | None:
    return next((each for each in reversed(equal) if mine in each.row["calls"]), None)


def _may_join(row: Row, turn: str, call_id: str) -> bool:
    """Whether an equal call that comes later is this one again: not if its answer is known to the model already.

    Two calls of one reply are two wishes, so a call joins none that another call of its own reply asked for.
    """
    if is_settled(row):
        return False
    return not (turn and any(known[0] == turn and known[1] != call_id for known in row["calls"]))


def _as_sent(call: ValidCall) -> Any:
    """The arguments in a form that a later call can be made of: as they were written, else as they are shown."""
    try:
        return json.loads(json.dumps(call.arguments))
    except (TypeError, ValueError):
        return show_arguments(call)
