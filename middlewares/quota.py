"""Quota: so many calls, or so much cost, for each conversation, principal, tool or reply; the rest is refused."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar, Literal, TypeVar

import attrs
from returns.result import Failure

from ..audit import note_decision
from ..base import timing
from ..base.options import is_function, is_number, refuse
from ..engine.call import Outcome, ResolvedCall
from ..engine.call_state import TURN
from ..engine.compose import Handler, Placement
from ..engine.errors import NotExecuted, Unavailable
from ..stage_state.keys import PARTS, Part, as_given
from ..stage_state.limit_states import FleetStates, LocalStates, ask_states, list_store, share
from ..stores import Store, StoreError

R = TypeVar("R", bound=ResolvedCall)
_FOR_GOOD = 90 * 86_400.0  # seconds without a call after which a quota without a window is forgotten


@attrs.define
class _Used:
    amount: float
    begin: float  # of the window


@attrs.frozen
class _Asked:
    amount: float
    of_window: float | None = None  # a settlement: the begin of the window in which it was reserved


@attrs.frozen
class _Budget:
    """So much in each window. Its answer: whether it was granted, and the begin of the window."""

    most: float
    per: str
    window: float | None

    def begin(self, now: float) -> _Used:
        """Nothing is used."""
        return _Used(0.0, now)

    def decide(self, used: _Used, asks: _Asked, now: float) -> tuple[bool, float]:
        """Reserve an amount, or settle one."""
        if self.window is not None and now >= used.begin + self.window:
            used.amount, used.begin = 0.0, now
        settles = asks.of_window is not None
        granted = asks.of_window == used.begin if settles else used.amount + asks.amount <= self.most
        if granted:
            used.amount = max(0.0, used.amount + asks.amount)
        return granted, used.begin

    def keep(self, used: _Used, now: float) -> float:
        """Seconds until the window ends."""
        return _FOR_GOOD if self.window is None else max(0.0, used.begin + self.window - now)


def _undo(asked: _Asked, answer: tuple[bool, float]) -> _Asked | None:
    granted, begin = answer
    return _Asked(-asked.amount, of_window=begin) if granted else None


@attrs.define(eq=False)
class Quota:
    """A middleware that lets calls pass until their cost has used up a quota.

    The cost of a call is reserved before it runs and settled after it, so that a hundred calls at once do not pass the
    quota. A call that was refused inside or did not run, ``unavailable`` or ``not_executed``, costs nothing.

    Args:
        calls: The quota: calls, or units of ``cost``. Must be > 0.
        per: Each of these has a quota of its own: "conversation" (of a principal), "principal", "tool" (for each
            principal) or "turn" (the calls of one reply of the model, ``Call.reply``, or of one
            `gather`). Default "conversation".
        window: Seconds from its first call until the quota is there again, > 0. Default None: never.
        cost: A function of the call and of its outcome, None before it has run, that returns what it costs, ≥ 0.
            Default None: 1 for each call.
        store: Where the quota is kept, to share it with other processes. Default None: in this process.
        when_away: While the store gives no answer, "refuse" refuses each call as Unavailable, ``store_away``, and
            "local" goes by the calls of this process alone. The log says so once. Default "refuse".
        share_as: Keeps apart quotas with equal options in one store. Default "".

    Raises:
        SetupError: An option is out of its range, or of another type.
    """

    placement: ClassVar[Placement] = Placement(
        runs_body=False,
        kind="quota",
        reason="outside of retry: a call counts once, with all its attempts",
        holds_back="an answer that is replayed takes nothing from a quota",
        decides=("quota",),
        inside_of={"audit": "it writes down which limit decided"},
    )

    calls: float = attrs.field(validator=is_number(above=0))
    per: Part = "conversation"
    window: float | None = attrs.field(
        default=None, validator=is_number(above=0, optional=True, unit="seconds"), kw_only=True
    )
    cost: Callable[[ResolvedCall, Outcome | None], float] | None = attrs.field(
        default=None, validator=is_function(optional=True), kw_only=True
    )
    store: Store | None = attrs.field(default=None, kw_only=True)
    when_away: Literal["refuse", "local"] = attrs.field(default="refuse", kw_only=True)
    share_as: str = attrs.field(default="", kw_only=True)
    _local: LocalStates[_Used, _Asked, tuple[bool, float]] = attrs.field(init=False, repr=False)
    _fleet: FleetStates[_Used, _Asked, tuple[bool, float]] | None = attrs.field(init=False, repr=False)

    resources = property(list_store)

    def __attrs_post_init__(self) -> None:
        per: object = self.per
        if type(per) is not str or per not in PARTS:
            refuse("Quota", "per", f"one of {', '.join(PARTS)}", per)
        rule = _Budget(float(self.calls), self.per, self.window)
        self._local = LocalStates(rule, timing.wall_time)
        self._fleet = share(
            "Quota", self.store, self.when_away, self.share_as, rule, _Used, clock=timing.wall_time, undo=_undo
        )

    def count_with(self, other: object) -> None:
        """Take from what another quota has left, if its options are the same: that of a pipeline over other tools."""
        if isinstance(other, Quota) and other._local.rule == self._local.rule:  # noqa: SLF001  # of this very class
            self._local = other._local  # noqa: SLF001  # as above

    async def __call__(self, call: R, call_next: Handler[R]) -> Outcome:
        """The inside's outcome; or Unavailable, ``quota``, with the seconds until the window ends."""
        key, reserved = self._key_of(call), self._cost_of(call, None)
        try:
            states, (granted, begin) = await ask_states(self._fleet, self._local, key, _Asked(reserved))
        except StoreError:
            return Failure(Unavailable(call.tool.name, "store_away"))
        if not granted:
            note_decision(call, "limit", name=f"quota of {self.calls:g} for each {self.per}", action="deny")
            left = None if self.window is None else max(0.0, begin + self.window - timing.wall_time())
            return Failure(Unavailable(call.tool.name, "quota", left, quota_of=self._find_part(call)))
        outcome = await call_next(call)
        ran = not (type(outcome) is Failure and isinstance(outcome.failure(), (Unavailable, NotExecuted)))
        rest = (self._cost_of(call, outcome) if ran else 0.0) - reserved
        if rest:
            await states.tell(key, _Asked(rest, of_window=begin))
        return outcome

    def _key_of(self, call: ResolvedCall) -> Hashable:
        return as_given(PARTS[self.per](call))

    def _find_part(self, call: ResolvedCall) -> Part:
        """The part that shares the quota of a call: its conversation without a reply, its principal without both."""
        part = self.per
        if part == "turn" and not (call.reply or call.get_state(TURN, "")):
            part = "conversation"
        return "principal" if part == "conversation" and not call.conversation else part

    def _cost_of(self, call: ResolvedCall, outcome: Outcome | None) -> float:
        return 1.0 if self.cost is None else max(0.0, float(self.cost(call, outcome)))
