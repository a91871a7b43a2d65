"""Limits: a rule that decides what callers ask, kept by this process or in a store for a fleet.

A limit is written once, as a `Rule` that changes a state. `LocalStates` asks it for the calls of this process and
`FleetStates` for all processes of a store; `ask_states` asks the one that a stage goes by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from math import inf
from threading import Lock
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from ..base.forking import register_after_fork
from ..base.options import check_type, refuse
from ..base.setup_error import SetupError
from ..once import NotPlainError, digest, join_digest
from ..stores import Store, StoreError
from .shared_values import AwayNotice, SharedValues

S = TypeVar("S")  # a state
A = TypeVar("A")  # what a caller asks
B = TypeVar("B")  # the answer
A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co", covariant=True)
_MANY = 256  # states; with fewer of them, those that say nothing any more are left where they are
_PAUSE = 600.0  # seconds from a look at all states to the next one for new keys alone, for it takes a while
_SPARE = 60.0  # seconds that a store keeps a state for longer, for the clocks of hosts may differ


class Rule(Protocol[S, A_contra, B_co]):
    """The decisions of a limit. States are made of JSON values."""

    def begin(self, now: float, /) -> S:
        """The state of a key of which nothing is known."""
        ...

    def decide(self, state: S, asks: A_contra, now: float, /) -> B_co:
        """Change a state by what a caller asks, and answer."""
        ...

    def keep(self, state: S, now: float, /) -> float:
        """Seconds after which a state says no more than a new one does."""
        ...


@attrs.define(eq=False)
class _Held(Generic[S]):
    state: S
    at: float  # when it was last asked


@attrs.define(eq=False)
class LocalStates(Generic[S, A, B]):
    """The states of one limit in this process. Threads may share them.

    States that say nothing any more are removed at a new key: when the number of states has doubled since the last
    removal, or that is ten minutes ago.
    """

    rule: Rule[S, A, B]
    clock: Callable[[], float]
    by_key: dict[Hashable, _Held[S]] = attrs.field(init=False, factory=dict[Hashable, "_Held[S]"])
    _sweep_at: int = attrs.field(init=False, default=_MANY)
    _sweep_after: float = attrs.field(init=False, default=inf)  # in time; set by the first removal
    _lock: Lock = attrs.field(init=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._renew_lock)

    def decide(self, key: Hashable, asks: A) -> B:
        """Have one thing decided at once."""
        with self._lock:
            now = self.clock()
            held = self.by_key.get(key)
            if held is None:
                held = self._begin(key, now)
            held.at = now
            return self.rule.decide(held.state, asks, now)

    def _begin(self, key: Hashable, now: float) -> _Held[S]:
        if len(self.by_key) >= self._sweep_at or now >= self._sweep_after:
            keep = self.rule.keep
            self.by_key = {key: each for key, each in self.by_key.items() if each.at + keep(each.state, each.at) > now}
            self._sweep_at = max(_MANY, 2 * len(self.by_key))
            self._sweep_after = now + _PAUSE
        held = self.by_key[key] = _Held(self.rule.begin(now), now)
        return held

    async def tell(self, key: Hashable, *asks: A) -> list[B | None]:
        """As `FleetStates.tell`."""
        return [self.decide(key, each) for each in asks]

    def _renew_lock(self) -> None:
        self._lock = Lock()


@attrs.define(eq=False)
class FleetStates(Generic[S, A, B]):
    """The states of one limit in a store, for all processes whose limit has the same name."""

    rule: Rule[S, A, B]
    clock: Callable[[], float]  # seconds, on all hosts the same ones
    make: Callable[..., S]  # the class of a state
    store: Store
    prefix: str  # of the keys in the store
    owner: str  # the stage, for errors
    notice: AwayNotice  # logs that the store is away
    refuses: bool  # calls while it is away
    only_grows: bool = False  # see `SharedValues`
    undo: Callable[[A, B], A | None] | None = None  # see `SharedValues`
    _values: SharedValues[A, B] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._values = SharedValues(
            self.store, self._decide, only_grows=self.only_grows, undo=self.undo, notice=self.notice
        )

    async def ask(self, key: Hashable, asks: A) -> B:
        """Have one thing decided; it is undone for a caller that is cancelled."""
        return await self._values.ask(self.name(key), asks)

    async def tell(self, key: Hashable, *asks: A) -> list[B | None]:
        """Have something decided for good; None: the store gave no answer within a second."""
        return await self._values.tell(self.name(key), *asks)

    def name(self, key: Hashable) -> str:
        """The key in the store: a text that is equal in all processes.

        Raises:
            SetupError: A function of the user's returned a value whose equality only this process can tell.
        """
        try:
            return self.prefix + digest(key)
        except NotPlainError as exc:
            raise SetupError(
                f"{self.owner}: with `store`, `key` must return a text, a number or a tuple of these, "
                f"not {type(key).__name__}"
            ) from exc

    def _decide(self, value: bytes | None, asked: Sequence[A]) -> tuple[bytes | None, float, list[B]]:
        now = self.clock()
        state = self.rule.begin(now) if value is None else self.make(*json.loads(value))
        before = _dump(state)
        answers = [self.rule.decide(state, each, now) for each in asked]
        after = _dump(state)
        return (None if after == before else after), self.rule.keep(state, now) + _SPARE, answers


States: TypeAlias = LocalStates[S, A, B] | FleetStates[S, A, B]


def _dump(state: Any) -> bytes:
    return json.dumps(attrs.astuple(state)).encode()


async def ask_states(
    fleet: FleetStates[S, A, B] | None, local: LocalStates[S, A, B], key: Hashable, asks: A
) -> tuple[States[S, A, B], B]:
    """Have one thing decided by the fleet; without one, or while its store is away, by this process.

    Returns:
        The states that decided, which are to be told of it, and their answer.

    Raises:
        StoreError: The store gave no answer, and ``when_away`` is "refuse".
    """
    if fleet is not None:
        try:
            return fleet, await fleet.ask(key, asks)
        except StoreError:
            if fleet.refuses:
                raise
    return local, local.decide(key, asks)


def list_store(stage: Any) -> tuple[Store, ...]:
    """The store, which the pipeline opens and closes."""
    return () if stage.store is None else (stage.store,)


def share(
    owner: str,
    store: Store | None,
    when_away: Literal["refuse", "local"],
    share_as: str,
    rule: Rule[S, A, B],
    make: Callable[..., S],
    **options: Any,
) -> FleetStates[S, A, B] | None:
    """The states of a limit in its store, shared by limits with equal rules; None: it has none."""
    check_sharing(owner, store, when_away, share_as)
    if store is None:
        return None
    prefix = f"{owner.lower()}/{join_digest(share_as, repr(rule))[:12]}/"
    notice, refuses = notice_of(owner, when_away), when_away == "refuse"
    return FleetStates(
        rule, make=make, store=store, prefix=prefix, owner=owner, notice=notice, refuses=refuses, **options
    )


def notice_of(owner: str, when_away: str) -> AwayNotice:
    """Says that the store of a limit is away, and what that means."""
    return AwayNotice(owner, "calls are refused" if when_away == "refuse" else "each process goes by its own calls")


def check_sharing(owner: str, store: object, when_away: object, share_as: object) -> None:
    """Raise SetupError for an option that says how a limit is shared."""
    is_store = all(callable(getattr(store, name, None)) for name in ("get", "write", "scan"))
    if store is not None and (not is_store or isinstance(store, type)):
        refuse(owner, "store", "a store, such as SQLite(path), or None", store)
    if type(when_away) is not str or when_away not in ("refuse", "local"):
        refuse(owner, "when_away", '"refuse" or "local"', when_away)
    check_type(owner, "share_as", share_as, str, name="text")
