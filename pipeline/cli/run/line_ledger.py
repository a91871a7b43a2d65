"""LineLedger: says to an ordinary `Ledger` that a line of CALLS is one delivery, whatever is called in it."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import attrs
from returns.result import Failure

from ...engine.call import Call, Outcome, ResolvedCall, ValidCall
from ...engine.call_state import StateKey
from ...engine.compose import Handler, Placement
from ...engine.compose.pipeline import Pipeline
from ...engine.errors import Unavailable
from ...middlewares import Ledger
from ...stores import Change, SQLite, StoreError
from ...tools.definition import Tool
from ..terminal_text import CommandError
from .run_results import Place, RunResults

LINE: StateKey[Place] = StateKey("toolcall-pipeline.run.line")
_FOR_EVER = 1e9  # seconds
_NO_TOOL = "?"  # in a pipeline that does not look for tools


@attrs.define(eq=False)
class LineLedger:
    """A stage around a ledger. A line without a ``conversation`` is in one of its own: others do not know of it.

    Attributes:
        path: The file of the ledger.
        results: Notes which lines began.
        ledger: Keeps what began and how it ended.
        refused: The line that could not be kept, so that it has not begun and the run has to stop; and why.
    """

    # That of a ledger, without its rules for other stages: a line is kept wherever they stand.
    placement: ClassVar[Placement] = attrs.evolve(Ledger.placement, inside_of={})

    path: Path
    results: RunResults
    ledger: Ledger = attrs.field(init=False)
    refused: dict[Place, str] = attrs.field(init=False, factory=dict[Place, str])

    def __attrs_post_init__(self) -> None:
        self.ledger = Ledger(SQLite(self.path), keep=_FOR_EVER)

    @property
    def resources(self) -> tuple[Any, ...]:
        """The store and the ledger, which are opened before this stage."""
        return (*self.ledger.resources, self.ledger)

    def add_to(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline, with this as a stage right outside of what repeats the body, or else of what runs it."""
        places = {stage.name: stage.placement for stage in pipeline.entries if stage.role == "wrap"}
        last = pipeline.entries[-1].name
        # Before a stage that does the work of a tool itself, too.
        is_inside = (name for name, its in places.items() if its.repeats or getattr(its, "runs_body", False))
        return pipeline.before(next(is_inside, last), self, name="line_ledger")

    def __call__(self, call: Call, call_next: Handler[Call]) -> Awaitable[Outcome]:
        """See `Ledger`. A call without a line is made by a tool, whose own line stands for it."""
        whole = _as_delivery(call)
        return call_next(call) if whole is None else self._keep(call, whole, call_next)

    def look_up(self, call: Call, call_next: Handler[Call]) -> Awaitable[Outcome]:
        """See `Ledger.look_up`."""
        whole = _as_delivery(call)
        return call_next(call) if whole is None else self.ledger.look_up(whole, lambda _: call_next(call))

    async def _keep(self, call: Call, whole: ValidCall, call_next: Handler[Call]) -> Outcome:
        place, began = call.get_state(LINE), False

        async def begin(inner: ValidCall) -> Outcome:
            nonlocal began
            self.results.begin(place)
            began = True
            below = call.under(inner.report, inner.guards)
            return await call_next(
                below.with_idempotency_key(inner.idempotency_key) if isinstance(below, ValidCall) else below
            )

        outcome = await self.ledger(whole, begin)
        if not began and type(outcome) is Failure and isinstance(error := outcome.failure(), Unavailable):
            self.refused[place] = error.reason
        return outcome

    async def check(self, place: Place) -> None:
        """Raise CommandError if the line was refused, for it could not be kept that it begins. So it has no result."""
        if place in self.refused:
            reason = self.refused.pop(place)
            try:
                await self.ledger.store.write(Change("run", b""))
            except StoreError as exc:  # the ledger names none to a model
                reason = str(exc)
            raise CommandError(f"{self.path}: {reason}")

    async def rerun_unknown(self) -> None:
        """Say of each call that may have taken effect that it did not, so that its line runs again."""
        try:
            for each in await self.ledger.undecided():
                await self.ledger.resolve(each.id, landed=False, by="--rerun-unknown")
        except StoreError as exc:
            raise CommandError(f"{self.path}: {exc}") from None


def _as_delivery(call: Call) -> ValidCall | None:
    """The delivery that a line is; None of a read, and of a call without a line."""
    place = call.get_state(LINE, None)
    tool = call.tool if isinstance(call, ResolvedCall) else None
    if place is None or (tool is not None and tool.effect == "read"):
        return None
    name = f"line {place.digest}:{place.nth}"
    kept = attrs.evolve(call, id=call.id or name, reply=name, conversation=call.conversation or name)
    if tool is not None and not tool.composite and isinstance(kept, ValidCall):
        return kept
    # The ledger would know too little of it, or leave it to the calls that it makes.
    return attrs.evolve(kept, conversation=name).resolved(_stand_in(tool)).validated({})


@lru_cache
def _stand_in(tool: Tool[..., Any] | None) -> Tool[..., Any]:
    effect: Literal["idempotent", "mutating"] = (
        "idempotent" if tool is not None and tool.effect == "idempotent" else "mutating"
    )
    verify_with = None if tool is None else tool.verify_with
    name = _NO_TOOL if tool is None else tool.name
    return Tool.from_schema(name=name, parameters=None, handler=_do_nothing, effect=effect, verify_with=verify_with)


def _do_nothing(**_arguments: object) -> None: ...
