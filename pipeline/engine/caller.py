"""Caller: the pipeline that called a tool, for calls that the tool makes, as `batch` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType

import attrs
from returns.result import Failure

from .call_state import WITHIN
from .guards import Guard, Guards

if TYPE_CHECKING:
    from ..messages.wording import Wording
    from ..tools.definition import Tool
    from .call import Call, Outcome, ResolvedCall
    from .compose.runner import Runner


class InheritedGuard(Guard):
    """A guard that also holds for the calls that a tool makes through its `Caller`. By itself it refuses nothing."""

    counts_bodies: ClassVar[bool] = True

    def inherit(self) -> InheritedGuard:
        """The guard of one call that the tool makes."""
        return self

    def answer(self, outcome: Outcome) -> None:
        """That call has ended with this outcome."""


@attrs.frozen(eq=False)
class Origin(Guard):
    """A guard that refuses nothing: by it the call says through which pipeline it came."""

    runner: ReferenceType[Runner]  # weak: a pipeline would otherwise hold itself

    @property
    def may_pass_secrets(self) -> bool:
        """See `Guard`."""
        runner = self.runner()
        return runner is not None and runner.redaction.may_hold_secrets()


@attrs.frozen(eq=False)
class Caller:
    """Makes calls through the pipeline that called a tool, under those guards of its call that hold for them too.

    A call has the principal, the deps, the conversation and the reply of the tool's own call where it says no other.
    Its id belongs to the delivery of that call: the tool may give it again in another.
    """

    _runner: Runner
    _inherited: tuple[InheritedGuard, ...]
    _outer: ResolvedCall = attrs.field(repr=False)
    _delivery_of: Callable[[ResolvedCall], str] = attrs.field(repr=False)

    @staticmethod
    def of(call: ResolvedCall, delivery_of: Callable[[ResolvedCall], str]) -> Caller | None:
        """The caller of the tool of this call. Of a pipeline in a pipeline it is the outer one.

        Returns:
            None if the call came through no pipeline, or has ended.
        """
        guards = call.guards
        if guards is None:
            return None
        origin: Origin | None = None
        inherited: tuple[InheritedGuard, ...] = ()
        for guard in guards.each:  # once for each tool with a context: generators take twice as long
            if isinstance(guard, InheritedGuard):
                inherited += (guard,)
            elif origin is None and isinstance(guard, Origin):
                origin = guard
        runner = None if origin is None else origin.runner()
        return None if runner is None else Caller(runner, inherited, call, delivery_of)

    async def __call__(self, call: Call, /) -> Outcome:
        """Run one call."""
        guards = tuple(guard.inherit() for guard in self._inherited)
        outer = self._outer
        if call.id and call.get_state(WITHIN, None) is None:
            call = call.with_state(WITHIN, (within := self.delivery) and f"{within}:{call.id}")
        asked = call.asked_by(outer.principal, outer.deps, outer.conversation, outer.reply)
        outcome = await self._runner.run(asked.under(None, Guards.of(*guards) if guards else None))
        for guard in guards:
            guard.answer(outcome)
        return outcome

    @property
    def delivery(self) -> str:
        """The delivery of the tool's own call; "": it has no id."""
        return self._delivery_of(self._outer)

    @property
    def wording(self) -> Wording | None:
        """As `Pipeline.wording`."""
        return self._runner.wording

    def resolve(self, call: Call, /) -> ResolvedCall | Failure[Any] | None:
        """As `Pipeline.resolve`."""
        return self._runner.resolve(call)

    def find(self, name: object, /) -> Tool[..., Any] | None:
        """As `Pipeline.find`."""
        return self._runner.find(name)
