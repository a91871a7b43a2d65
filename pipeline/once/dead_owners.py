"""Dead owners: what they left open in a store may have taken effect, and is kept from then on for a time."""

from __future__ import annotations

import attrs

from ..stores import Store
from .ledger_records import Records, read_lost, read_open
from .owners import lives


@attrs.frozen
class Undecided:
    """A call that may have taken effect.

    Attributes:
        id: For `Ledger.resolve`.
        tool: The name of its tool.
        key: The idempotency key of its body; "": it had none.
        principal: Who asked.
        conversation: Where.
        at: When it began, in seconds since the epoch.
    """

    id: str
    tool: str
    key: str
    principal: str
    conversation: str
    at: float


async def find_undecided(store: Store) -> list[Undecided]:
    """The calls that may have taken effect, oldest first.

    Raises:
        StoreError: The store gave no answer.
    """
    found: list[Undecided] = []
    for _, intent in await Records(store, 0).list("i/"):
        tool, about = intent["tool"], (intent["principal"], intent["conversation"])
        for id_, kept in intent["lost"].items():
            key, _, at, _ = read_lost(kept)
            found.append(Undecided(id_, tool, key, *about, at))
        for id_, kept in intent["open"].items():
            owner, key, _ = read_open(kept)
            if not await lives(store, owner, id_):
                found.append(Undecided(id_, tool, key, *about, intent["at"]))
    return sorted(found, key=lambda each: each.at)


async def bury_claims(records: Records) -> None:
    """Give each claim of a dead owner the time for which answers are kept: while it ran, it had none.

    Raises:
        StoreError: The store gave no answer.
    """
    for key, intent in await records.list("i/"):
        for id_, kept in intent["open"].items():
            if not await lives(records.store, read_open(kept)[0], id_):
                await records.bury(id_, key, intent)
