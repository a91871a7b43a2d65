"""Approvals: the calls that wait, for the person, or the application, that decides on them; and standing grants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, cast

import attrs

from ..audit.audit_log import HEAD, AuditLog
from ..base import timing
from ..base.options import check_number, check_type, refuse
from ..base.setup_error import SetupError
from ..engine.errors import InvalidParams, MalformedCall
from ..messages import render
from ..stage_state.switches import fold_name
from ..stores import Change, Store
from ..tools.definition import Tool
from .approval_requests import Approval, Requests, Row, State, decide, read_approval
from .grants import Grant, Grants, make_grant

_FIRST_POLL, _LAST_POLL = 0.05, 1.0  # seconds


@attrs.define(eq=False)
class Approvals:
    """The calls of the stage `Approve` that wait for a decision, and standing grants. Each decision is made once.

    Decisions survive restarts, and may be made in another process than the one that asked. Open the store first:
    ``async with Approvals(store) as approvals``, or inside of ``async with pipeline`` with that store.

    If the store holds the rows of an `Audit`, each decision becomes one of them, in the same write.

    Args:
        store: The store of the stage.
        secret: The secret of the stage `Audit`. Default ``b""``: none; then decisions are no rows of an audit with one,
            which names them once the call runs.

    Raises:
        SetupError: It is not a store.
    """

    store: Store
    secret: bytes = attrs.field(default=b"", kw_only=True, repr=False)
    _requests: Requests = attrs.field(init=False, repr=False)
    _grants: Grants = attrs.field(init=False, repr=False)
    _audit: AuditLog = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.store, type) or not callable(getattr(self.store, "write", None)):
            refuse("Approvals", "store", "a store, such as stores.SQLite(path)", self.store)
        self._requests, self._grants = Requests(self.store), Grants(self.store)
        self._audit = AuditLog(self.store, self.secret)

    async def __aenter__(self) -> Self:
        """Open the store.

        Raises:
            SetupError: The file is of a newer version, or of another program.
        """
        await self.store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store.__aexit__(kind, exc, traceback)

    async def pending(self) -> list[Approval]:
        """The calls that wait, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        found = [approval async for row in self._requests.list() if (approval := read_approval(row)).state == "pending"]
        return sorted(found, key=lambda each: each.at)

    async def list(self) -> list[Approval]:
        """All calls that are kept, also decided and expired ones, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        return sorted([read_approval(row) async for row in self._requests.list()], key=lambda each: each.at)

    async def get(self, id_: str, /) -> Approval | None:
        """One call; None: the id is unknown.

        Raises:
            StoreError: The store gave no answer.
        """
        kept = await self._requests.find(id_)
        return None if kept is None else read_approval(kept.row)

    async def approve(
        self, id_: str, /, *, by: str, arguments: Mapping[str, Any] | None = None, message: str = ""
    ) -> Approval | None:
        """Let a call run.

        Args:
            id_: Its id.
            by: Who decides, not empty.
            arguments: Other arguments in place of those that were sent. Default None: it runs as it was sent.
            message: Words of that person, for the record. Default "": none.

        Returns:
            The approval as it is now. If it was decided or had expired before, nothing changes: its state is
            ``already decided``, or ``expired``. It stays ``pending`` where `Approve` says ``four_eyes`` and ``by`` is
            who asked. None: there is no such id.

        Raises:
            SetupError: ``by`` is empty, or the arguments do not fit the tool's schema.
            StoreError: The store gave no answer.
        """
        return await self._decide(id_, "approved", by, arguments, message)

    async def reject(self, id_: str, /, *, by: str, message: str = "") -> Approval | None:
        """Refuse a call. The model reads the message.

        Args:
            id_: Its id.
            by: Who decides, not empty.
            message: Words for the model. Default "": a fixed text.

        Returns:
            As `approve`.

        Raises:
            SetupError: ``by`` is empty.
            StoreError: The store gave no answer.
        """
        return await self._decide(id_, "rejected", by, None, message)

    deny = reject

    async def wait(self, id_: str, /, *, timeout: float | None = None) -> Approval | None:  # noqa: ASYNC109  # it returns
        """Wait until a call is decided or expires.

        Args:
            id_: Its id.
            timeout: Seconds to wait at most, > 0. Default None: until it is decided or expires.

        Returns:
            The approval as it is then; ``pending`` if the time was up. None: there is no such id.

        Raises:
            StoreError: The store gave no answer.
        """
        check_number("wait", "timeout", timeout, above=0, optional=True, unit="seconds")
        until, poll = None if timeout is None else timing.monotonic() + timeout, _FIRST_POLL
        while True:
            found = await self.get(id_)
            left = poll if until is None else min(poll, until - timing.monotonic())
            if found is None or found.state != "pending" or left <= 0:
                return found
            await timing.sleep(left)
            poll = min(poll * 1.5, _LAST_POLL)

    async def grant(
        self,
        *,
        tool: str,
        by: str,
        principal: str | None = None,
        conversation: str | None = None,
        until: float | datetime | None = None,
    ) -> Grant:
        """Let all calls run that a standing grant covers: "always allow".

        Args:
            tool: The name of a tool, or a pattern such as ``read_*``.
            by: Who gives it, not empty.
            principal: Whose calls. Default None: those of every caller.
            conversation: Where. Default None: in every conversation.
            until: When it ends: a time with its zone, or seconds since 1970-01-01 UTC. Default None: when it is
                revoked.

        Raises:
            SetupError: An option is of another type, or empty.
            StoreError: The store gave no answer.
        """
        made = make_grant(tool, by, principal, conversation, until)
        while True:
            entry, grants = await self._grants.read()
            if await self._grants.write(entry, [*grants, made], *await self._audit_grant(made, "granted")):
                return made

    async def grants(self) -> Sequence[Grant]:
        """The grants that hold now, oldest first.

        Raises:
            StoreError: The store gave no answer.
        """
        return (await self._grants.read())[1]

    async def revoke(self, id_: str, /) -> Grant | None:
        """End a standing grant. Calls that it covered and that began run on.

        Returns:
            The grant; None: none that holds has this id.

        Raises:
            StoreError: The store gave no answer.
        """
        while True:
            entry, grants = await self._grants.read()
            found = next((each for each in grants if each.id == id_), None)
            if found is None:
                return None
            left = [each for each in grants if each is not found]
            if await self._grants.write(entry, left, *await self._audit_grant(found, "revoked")):
                return found

    async def _audit_grant(self, grant: Grant, action: str) -> Sequence[Change]:
        asked = {"principal": grant.principal, "conversation": grant.conversation, "tool": grant.tool}
        facts = {"by": "person", "name": grant.by, "action": action, "grant": grant.id, "until": grant.until}
        return await self._audit.changes_for({"event": action, **asked, "decisions": [facts]})

    async def _decide(
        self, id_: str, state: State, by: str, arguments: Mapping[str, Any] | None, message: str
    ) -> Approval | None:
        check_type("decision", "by", by, str)
        check_type("decision", "message", message, str)
        if not by:
            raise SetupError("a decision needs `by`, the name of who made it")
        while True:
            kept, (head,) = await self._requests.find_with(id_, HEAD)
            if kept is None:
                return None
            found = read_approval(kept.row)
            if found.state == "expired" or (found.state == "pending" and is_own_call(kept.row, by)):
                return found
            if found.state != "pending":
                return attrs.evolve(found, state="already decided")
            edit = {} if arguments is None else _check_arguments(kept.row, arguments)
            decided = decide(kept.row, state, by, message, **edit)
            audited = self._audit.changes_after(head, _describe_decision(decided))
            if await self._requests.write(kept, decided, *audited):
                return read_approval(decided)


def is_own_call(row: Row, by: str) -> bool:
    """Whether this is who asked for a call, however the name is written, and may not decide on it therefore."""
    return bool(row.get("four_eyes")) and fold_name(row["principal"]) == fold_name(by)


def _describe_decision(row: Row) -> Row:
    """A decision as a row of an audit."""
    asked = {name: row[name] for name in ("principal", "conversation", "tool")}
    facts = {"by": "person", "name": row["by"], "action": row["state"], "approval": row["id"]}
    return {
        "event": "decided",
        **asked,
        "decisions": [{**facts, "version": row["policy"], "edited": row.get("edited", False)}],
    }


def _check_arguments(row: Row, arguments: object) -> Row:
    """The fields of a record that edited arguments change, before stages judge them; SetupError if they do not fit."""
    if row["sent"] is None:
        raise SetupError(
            f"approve: the arguments of {row['tool']!r} hold secrets and are not kept, so nobody can edit them"
        )
    if not isinstance(arguments, Mapping):
        refuse("approve", "arguments", "a mapping by the names of parameters", arguments)
    try:
        sent = cast("dict[str, Any]", json.loads(json.dumps(dict(cast("Mapping[str, Any]", arguments)))))
    except (TypeError, ValueError) as exc:
        raise SetupError(f"approve: `arguments` must be JSON values: {exc}") from exc

    def never() -> None: ...

    tool = Tool.from_schema(name=row["tool"], parameters=row["schema"], handler=never)
    found = tool.parse(sent)
    if isinstance(found, (InvalidParams, MalformedCall)):
        raise SetupError(f"approve: `arguments` must fit the tool: {render(found)}")
    return {"arguments": sent, "edit": sent, "edited": True}
