"""Records: what a ledger keeps in its store, and how it changes. Each step is one write: of all its keys, or of none.

==========  ===================================================================================================
``d/…``     a delivery: that it began and for whom, then its answer
``i/…``     an intent: its deliveries that run (``open``) and those that may have taken effect (``lost``). Only
            while there is one: a known end leaves nothing behind
``s/…``     when a tool last changed something in a conversation; what an exception said before is lifted by that
``r/…``     the last success of an intent, where those are replayed
``o/…``     the lease of an owner
``v/…``     the version of the rows, see `row_versions`
==========  ===================================================================================================

What is known stays for the time ``keep`` of its ledger. Rows of a body that runs have no time: it begins at its end,
or when somebody sees that its owner died, see `dead_owners`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import attrs
from pydantic_core import PydanticSerializationError, to_json

from ..base import timing
from ..base.setup_error import SetupError
from ..engine.call import ValidCall, make_uuid
from ..stores import ANY, Change, Entry, Expected, Memory, Store
from .decision import Arrival
from .digests import join_digest
from .intents import delivery_of, intent_of, write_arguments
from .kept_outcomes import NOT_KEPT
from .owners import Owner, lives
from .row_versions import VERSION, check_version

if TYPE_CHECKING:
    from collections.abc import Mapping

# yes: it took effect. no: it did not. told: the tool's author reported a failure. lift: an exception said what was
# wrong, and another change may have put it right. lost: only ``verify=`` or a person can say.
Known: TypeAlias = Literal["yes", "no", "told", "lift", "lost"]
Delivery: TypeAlias = dict[str, Any]
Intent: TypeAlias = dict[str, Any]
_Deliveries: TypeAlias = dict[str, list[Any]]
# A `Change` of the store: key, value, the version that is expected, seconds. The memory of this process takes it as it
# is, for to make the named one takes longer than to write it.
_Change: TypeAlias = tuple[str, Any, Expected, float | None]
UNDECIDED = ("lift", "lost")
_write = json.JSONEncoder(separators=(",", ":")).encode
_TAG = 12  # digits of the part that one conversation's keys share: a cluster of Redis keeps them in one slot


@lru_cache
def _make_tag(principal: str, conversation: str, secret: bytes) -> str:
    for name, given in (("principal", principal), ("conversation", conversation)):
        if not isinstance(cast("object", given), str):
            raise SetupError(f"Call: `{name}` must be a text, not {given!r}: a store keeps calls by it")
    return "{" + join_digest(principal, conversation, secret=secret)[:_TAG] + "}"


@lru_cache
def _digest_name(tool: str, secret: bytes) -> str:
    return join_digest(tool, secret=secret)


@attrs.define(eq=False)  # never changed, and not frozen: one is made for each call, in a third of the time
class Names:
    """The keys of a call.

    Attributes:
        id: The delivery, as `Ledger.resolve` takes it.
        delivery: "": the call has no id, so it cannot be delivered again.
        intent: Its intent, by loose equality.
        strict: Its digest by strict equality. "": no call is equal to it.
        succeeded: The key of a success of a strictly equal intent, where those are replayed. "": there can be none.
        changed: Begins the keys of the tools that changed something in its conversation. "": they are not needed.
        tool: The last part of such a key.
    """

    id: str
    delivery: str
    intent: str
    strict: str
    succeeded: str
    changed: str
    tool: str

    @staticmethod
    def of(call: ValidCall, secret: bytes) -> Names:
        """The names of a call."""
        tag = _make_tag(call.principal, call.conversation, secret)
        written = write_arguments(call)
        asked = intent_of(call, call.params, secret, written)
        given = delivery_of(call, secret, written)
        id_ = f"{tag}{given}" if given else f"{tag}~{make_uuid()}"
        tool = _digest_name(call.tool.name, secret)
        succeeded = asked.strict and f"r/{tag}{asked.strict}"
        return Names(id_, _delivery_key(id_), f"i/{tag}{asked.loose}", asked.strict, succeeded, f"s/{tag}", tool)

    def as_before(self, call: ValidCall, secret: bytes) -> Names:
        """The names that the release before gave to the call. Of a call without an id only the intent has another."""
        from .old_digests import find_old_digests  # here, for a store without such rows needs none

        tag = _make_tag(call.principal, call.conversation, secret)
        given, asked = find_old_digests(call, secret)
        id_ = f"{tag}{given}" if given else self.id
        intent, succeeded = f"i/{tag}{asked}", f"r/{tag}{asked}"
        return attrs.evolve(self, id=id_, delivery=_delivery_key(id_), intent=intent, succeeded=succeeded)


class Met(NamedTuple):
    """An earlier arrival of a delivery, or another delivery of its intent, as the table of `decision` asks for it.

    Attributes:
        id: Its id.
        arrives: What is known of it.
        key: The idempotency key of its body.
        known: How it ended, if that is not decided.
        at: When.
        is_equal: Whether it is strictly equal.
    """

    id: str
    arrives: Arrival
    key: str
    known: Known = "lost"
    at: float = 0.0
    is_equal: bool = True


class Seen(NamedTuple):
    """What a store holds of a call.

    Attributes:
        entry: The record of the delivery; None: there is none.
        delivery: What it says.
        intent: The record of the intent, likewise.
        met: What the call meets, in the order in which the table is asked.
        died: Deliveries of the intent whose owners died.
    """

    entry: Entry | None
    delivery: Delivery
    intent: tuple[Entry | None, Intent] = (None, {})
    met: Sequence[Met] = ()
    died: Sequence[str] = ()


@attrs.define(eq=False)  # as `Names`
class Claim:
    """The right to run a body, and the versions that its end expects.

    Attributes:
        names: Of the call.
        key: The idempotency key of its body.
        delivery: The record of the delivery.
        version: Of that record.
        intent: The record of the intent, as it was written with it.
        decides: The lost deliveries that an answer to this one decides, for they have its key.
    """

    names: Names
    key: str
    delivery: Delivery
    version: int
    intent: Intent
    decides: Sequence[str]


@attrs.define(eq=False)
class _Row:
    """A value in the memory of this process, which is not changed: JSON only for those who read the store itself."""

    record: Any

    def __bytes__(self) -> bytes:
        return _dump_ended(self.record)


@attrs.frozen(eq=False)
class Records:
    """The records in one store: as JSON, or in the memory of this process as they are.

    Args:
        store: The store.
        keep: Seconds for which an answer is kept.
    """

    store: Store
    keep: float

    async def read(self, key: str) -> tuple[Entry | None, dict[str, Any]]:
        """A record, which is not to be changed, and its entry; ``None, {}`` without one."""
        if not key:
            return None, {}
        store = self.store
        found: Entry | None = store.find(key) if type(store) is Memory else await store.get(key)
        return found, {} if found is None else check_version(_load(found.value))

    async def _write(self, *changes: _Change) -> int | None:
        store = self.store
        return store.put(*changes) if type(store) is Memory else await store.write(*map(Change._make, changes))

    def _pack(self, record: dict[str, Any] | float) -> Any:
        """The value of a record, or of a time, in the store."""
        if type(self.store) is Memory:
            return _Row(record)
        return _dump_ended(record) if isinstance(record, dict) and "outcome" in record else _dump(record)

    async def choose(self, names: Names, before: Names | None) -> Names:
        """The names of a call, with those of the release before where it has left a row: it is kept on at its key.

        To be asked before each try of a claim: others may have put an end to that row.
        """
        if before is None:
            return names
        if before.delivery and await self.store.get(before.delivery) is not None:
            names = attrs.evolve(names, id=before.id, delivery=before.delivery)
        if await self.store.get(before.intent) is not None:
            names = attrs.evolve(names, intent=before.intent)
        return names

    async def look(self, names: Names, *, whole: bool = True) -> Seen:
        """Read what is known of a call.

        Args:
            names: Its names.
            whole: Also of other deliveries of its intent. Default True.
        """
        entry, kept = await self.read(names.delivery)
        own: list[Met] = []
        if entry is not None:
            known: Known = kept.get("known", "lost")
            arrives: Arrival = "lost" if known in UNDECIDED else "ended"
            if kept["state"] == "begun" and await lives(self.store, kept["owner"], names.id):
                arrives = "runs"
            elif kept["state"] == "begun" and await self._is_newer(names.delivery, entry):
                return await self.look(names, whole=whole)
            own.append(Met(names.id, arrives, kept["key"], known))
        is_lost = bool(own) and own[0].arrives == "lost"
        if not is_lost and (own or not whole):
            return Seen(entry, kept, met=own)
        row, intent = await self.read(names.intent)
        if not whole:
            return Seen(entry, kept, (row, intent), own)
        lost = {id_: read_lost(each) for id_, each in intent.get("lost", {}).items()}
        died: list[str] = []
        for id_, each in intent.get("open", {}).items():
            owner, key, strict = read_open(each)
            if not await lives(self.store, owner, id_):
                lost[id_] = key, "lost", intent["at"], strict
                died.append(id_)
        if died and row is not None and await self._is_newer(names.intent, row):
            return await self.look(names)
        if own:
            lost.pop(names.id, None)
        others = [
            Met(id_, "undecided", key, known, at, id_ == names.id or (bool(strict) and strict == names.strict))
            for id_, (key, known, at, strict) in lost.items()
        ]
        others.sort(key=lambda each: not each.is_equal)
        return Seen(entry, kept, (row, intent), [*own, *others], died)

    async def _is_newer(self, key: str, entry: Entry) -> bool:
        """Whether a record has changed: its owner, which does not run any more, may have ended it since it was read."""
        now = await self.store.get(key)
        return now is None or now.version != entry.version

    async def begin(self, call: ValidCall, owner: Owner, names: Names, delivery: Delivery, seen: Seen) -> Claim | None:
        """Claim a delivery; None: a record has changed since it was read.

        Args:
            call: The call.
            owner: Who runs it.
            names: Its names.
            delivery: The new record.
            seen: What was known when the call was let through.
        """
        entry, intent = seen.intent
        opened: _Deliveries = {**intent["open"]} if intent else {}
        gone: _Deliveries = {**intent["lost"]} if intent else {}
        for id_ in seen.died:
            _, key, strict = read_open(opened.pop(id_))
            gone[id_] = [key, "lost", timing.wall_time(), strict]
        own_key = delivery["key"]
        decides = [id_ for id_, (key, *_) in gone.items() if key == own_key] if own_key else []
        opened[names.id] = [owner.name, own_key, names.strict]
        if call.tool.effect != "keyed":  # a key stays that of the intent until an answer to it decides
            gone.pop(names.id, None)
        state: Intent = {
            "v": VERSION if entry is None else intent.get("v", 1),  # a row of the release before stays one at its key
            "tool": call.tool.name,
            "principal": call.principal,
            "conversation": call.conversation,
            "effect": call.tool.effect,
            "at": delivery["at"],
            "open": opened,
            "lost": gone,
        }
        expect = None if entry is None else entry.version
        changes: list[_Change] = [(names.intent, self._pack(state), expect, None)]
        if names.delivery:
            expect = None if seen.entry is None else seen.entry.version
            changes.append((names.delivery, self._pack(delivery), expect, None))
        version = await self._write(*changes)
        return None if version is None else Claim(names, own_key, delivery, version, state, decides)

    async def end(
        self, claim: Claim, known: Known, outcome: Mapping[str, Any] | None, success: Delivery | None = None
    ) -> bool:
        """Write how a delivery ended. False: the record is another one's by now, which took this owner for dead.

        Args:
            claim: Of the delivery.
            known: Knowledge of its effect.
            outcome: Its answer. None: no body began, so the delivery is forgotten and may come again.
            success: The answer to equal calls of later replies. None: they run.
        """
        names, expect, version, state = claim.names, claim.version, claim.version, claim.intent
        of_all = "lost" if known == "no" and names.id in state["lost"] else known  # an earlier time may have landed
        time = at = timing.wall_time()
        done = {**claim.delivery, "state": "ended", "known": of_all, "outcome": outcome, "done": time}
        if known == "lift":  # of a clock that was ahead
            at = max(at, await self._find_change(names))
        while True:
            changes = [self._change(names.intent, state, *_end_in(state, claim, known, at), expect)]
            if names.delivery:
                ended = None if outcome is None else self._pack(done)
                changes.append((names.delivery, ended, version, None if ended is None else self.keep))
            if success is not None:
                changes.append((names.succeeded, self._pack({"v": VERSION, **success}), ANY, self.keep))
            if known == "yes" and names.changed:
                changes.append((names.changed + names.tool, self._pack(time), ANY, self.keep))
            if await self._write(*changes) is not None:
                return True
            if names.delivery:
                now, record = await self.read(names.delivery)
                if now is None or record != claim.delivery:
                    return False
                version = now.version  # another one where this owner was taken for dead, and its claim got a time
            entry, state = await self.read(names.intent)  # an equal call has changed it meanwhile
            if entry is None:
                return False
            expect = entry.version

    def answer(
        self, names: Names, delivery: Delivery, entry: Entry | None, outcome: Mapping[str, Any]
    ) -> list[_Change]:
        """The changes by which a delivery has an answer though no body ran for it."""
        if not names.delivery:
            return []
        expect = None if entry is None else entry.version
        done = {**delivery, "state": "ended", "known": "yes", "outcome": outcome, "done": timing.wall_time()}
        return [(names.delivery, self._pack(done), expect, self.keep)]

    async def decide(
        self,
        id_: str,
        intent: str,
        seen: Intent,
        outcome: Mapping[str, Any] | None,
        by: str,
        also: Sequence[_Change] = (),
        known: Known = "told",
        version: int | None = None,
    ) -> bool:
        """Write what became of a lost delivery. False: it has changed meanwhile; it may run again.

        Args:
            id_: Its id.
            intent: The key of its intent.
            seen: The record of the intent by which this was decided.
            outcome: Its answer. None: it did not take effect, so the delivery is forgotten and may come again.
            by: Who says so.
            also: Further changes of the same write. Default: none.
            known: ``"no"``: no body began this time, which says nothing of an earlier time. Default: it is decided.
            version: Of the record of the delivery, where that said that it is lost. Default None: the intent said it.
        """
        key = _delivery_key(id_)
        entry, delivery = await self.read(key)
        changes = await self._take_out(intent, id_, known, seen)
        if changes is None or (version is not None and (entry is None or entry.version != version)):
            return False
        if entry is not None:
            done = {**delivery, "state": "ended", "known": "yes", "outcome": outcome, "done": timing.wall_time()}
            value = None if outcome is None else self._pack({**done, "by": by})
            changes.append((key, value, entry.version, None if value is None else self.keep))
        changes += also if changes else ()
        return bool(changes) and await self._write(*changes) is not None

    async def bury(self, id_: str, intent: str, seen: Intent) -> None:
        """Let a claim expire whose owner died; from now on its delivery is lost. Nothing, if it has changed meanwhile.

        Args:
            id_: The id of the delivery.
            intent: The key of its intent.
            seen: The record of the intent.
        """
        key = _delivery_key(id_)
        entry, delivery = await self.read(key)
        changes = await self._take_out(intent, id_, "lost", seen)
        if changes:
            if entry is not None:
                changes.append((key, self._pack(delivery), entry.version, self.keep))
            await self._write(*changes)

    async def lift(self, id_: str, intent: str, seen: Intent) -> bool:
        """Another change may have put right what was wrong with a call: it stands in the way of none any more."""
        changes = await self._take_out(intent, id_, "told", seen) or ()
        return bool(changes) and await self._write(*changes) is not None

    async def withdraw(self, names: Names, owner: Owner) -> None:
        """Take back a claim that was perhaps written, and whose body did not begin."""
        _, intent = await self.read(names.intent)
        if intent.get("open", {}).get(names.id, [""])[0] == owner.name:
            await self.decide(names.id, names.intent, intent, None, "", known="no")

    async def _take_out(self, intent: str, id_: str, known: Known, seen: Intent) -> list[_Change] | None:
        """The change that takes a delivery out of its intent; None: it is not there as it was seen."""
        entry, state = await self.read(intent)
        if any(state.get(at, {}).get(id_) != seen.get(at, {}).get(id_) for at in ("open", "lost")):
            return None
        if entry is None:
            return []
        opened, lost = dict(state["open"]), dict(state["lost"])
        was_open = opened.pop(id_, None)
        if known in ("yes", "told"):
            lost.pop(id_, None)
        elif known in UNDECIDED and was_open is not None:
            _, key, strict = read_open(was_open)
            lost[id_] = [key, known, timing.wall_time(), strict]
        return [self._change(intent, state, opened, lost, entry.version)]

    def _change(self, key: str, intent: Intent, opened: _Deliveries, lost: _Deliveries, expect: int | None) -> _Change:
        """A change of an intent: without a delivery that runs or is lost it is gone."""
        if not opened and not lost:
            return key, None, expect, None
        return key, self._pack({**intent, "open": opened, "lost": lost}), expect, None if opened else self.keep

    async def find_intent(self, id_: str) -> str:
        """The key of the intent that holds a lost or running delivery; "": none does."""
        found = ""
        for key, state in await self.list("i/" + id_.partition("}")[0]):
            if id_ in state["lost"] or id_ in state["open"]:
                found = key
        return found

    async def has_changed(self, names: Names, since: float) -> bool:
        """Whether another tool has changed something in the conversation since then."""
        return await self._find_change(names) > since

    async def _find_change(self, names: Names) -> float:
        """When another tool last changed something in the conversation; 0: never."""
        times = [0.0]
        if names.changed:
            async for key, entry in self.store.scan(names.changed):
                if key != names.changed + names.tool:
                    times.append(float(entry.value))
        return max(times)

    async def list(self, prefix: str) -> list[tuple[str, dict[str, Any]]]:
        """All records whose keys begin so."""
        found = [each async for each in self.store.scan(prefix)]  # to its end: an iterator has no other close
        return [(key, check_version(json.loads(entry.value))) for key, entry in found]


def _load(value: bytes | _Row) -> dict[str, Any]:
    record: dict[str, Any] = value.record if isinstance(value, _Row) else json.loads(value)
    return record


def read_open(kept: list[Any]) -> tuple[str, str, str]:
    """The owner, key and strict digest of a delivery that runs; the release before kept no digest, so it is ""."""
    return cast("tuple[str, str, str]", (*kept, "")[:3])


def read_lost(kept: list[Any]) -> tuple[str, Known, float, str]:
    """The key, knowledge, time and strict digest of a delivery that may have taken effect, as in `read_open`."""
    return cast("tuple[str, Known, float, str]", (*kept, "")[:4])


def _end_in(intent: Intent, claim: Claim, known: Known, at: float) -> tuple[_Deliveries, _Deliveries]:
    """The deliveries of an intent that run and are lost, once one has ended so, at that time."""
    opened: _Deliveries = {**intent["open"]}
    lost: _Deliveries = {**intent["lost"]}
    opened.pop(claim.names.id, None)
    if known in UNDECIDED and intent["effect"] != "idempotent":  # which may run again in any case
        lost[claim.names.id] = [claim.key, known, at, claim.names.strict]
    elif lost and known in ("yes", "told"):
        for id_ in (claim.names.id, *claim.decides):
            lost.pop(id_, None)
    return opened, lost


def _delivery_key(id_: str) -> str:
    """The key of a delivery by its id; "" of a call without an id, which leaves none."""
    return "" if "~" in id_ else f"d/{id_}"


def _dump_ended(record: Mapping[str, Any]) -> bytes:
    """A record with an answer; without it, where JSON cannot write it: an integer of 5,000 digits."""
    try:
        return _write(record).encode()
    except ValueError:
        return _dump({**record, "outcome": NOT_KEPT})


def _dump(value: object) -> bytes:
    """A record without a value of a tool, in a third of the time."""
    try:
        return to_json(value)
    except PydanticSerializationError:  # half of a surrogate pair in a name
        return _write(value).encode()
