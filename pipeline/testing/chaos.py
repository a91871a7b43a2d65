"""Chaos: a stage that makes tools slow, failing, cut off or lost, to see what an agent does then."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import anyio
import attrs
from returns.result import Failure, Success

from ..base import timing
from ..base.options import check_number, is_function, is_number, is_type, read_names, refuse
from ..engine.call import Outcome, ValidCall
from ..engine.compose import Handler, Placement
from ..engine.errors import Crashed
from ..messages.values import to_data

V = TypeVar("V", bound=ValidCall)
Fault: TypeAlias = Literal["slow", "error", "cut_off", "lost", "corrupt"]
_ONE_OF: tuple[Fault, ...] = ("error", "cut_off", "lost", "corrupt")


@attrs.frozen
class Injected:
    """A fault that a `Chaos` has made.

    Attributes:
        tool: Name of the tool.
        call_id: The id of the call; "" if it has none.
        fault: The fault.
    """

    tool: str
    call_id: str
    fault: Fault


@attrs.define(eq=False, kw_only=True)
class Chaos:
    """A middleware that makes faults by chance: ``standard(tools).before("execute", Chaos(lost=0.1, seed=7))``.

    Each run of a tool has at most one of ``error``, ``cut_off``, ``lost`` and ``corrupt``; ``slow`` comes beside it.
    The same seed makes the same faults for the same calls in the same order. Real bodies run, unless ``error`` stands
    in their way. A tool that changes something and whose answer is lost, or that was cut off, ends as
    ``outcome_unknown``: it may have taken effect, and nothing runs it again.

    Args:
        error: The probability, 0 to 1, that the exception of ``make_error`` comes before the tool begins. Default 0.
        cut_off: That the tool is cancelled at its first await, as by a time limit. Default 0.
        lost: That it runs, and its answer gets lost with the connection. Default 0.
        corrupt: That it runs, and its answer is cut: a text, or the JSON of anything else, at a place by chance.
            Default 0.
        slow: That ``delay`` seconds pass before it begins. Default 0.
        delay: Seconds, ≥ 0. Default 1.0.
        make_error: Makes the exception of ``error``. Default ConnectionError.
        tools: The tools that have faults. Default None: all.
        seed: For the dice. Default None: other faults each time.
        dice: Gives numbers from 0 to below 1, in place of ``seed``.
        sleep: Waits for so many seconds. Default: that of the pipeline, which a `FakeClock` moves.

    Attributes:
        injected: The faults, in their order.

    Raises:
        SetupError: An option is out of its range, the probabilities of the first four are more than 1 together, or
            both ``seed`` and ``dice`` are given.
    """

    placement: ClassVar[Placement] = Placement(
        kind="chaos",
        reason="right around the end: all other stages see the faults as they see those of a tool",
        runs_body=False,
        inside_of={
            "classify": "it reads the exceptions of a tool, and Chaos makes such",
            "retry": "it repeats a failed run of a tool, and each run has its own faults",
            "timeout": "it limits the time of a tool, and Chaos takes such",
        },
        tool_options=("tools",),
    )

    error: float = attrs.field(default=0.0, validator=is_number(least=0, most=1))
    cut_off: float = attrs.field(default=0.0, validator=is_number(least=0, most=1))
    lost: float = attrs.field(default=0.0, validator=is_number(least=0, most=1))
    corrupt: float = attrs.field(default=0.0, validator=is_number(least=0, most=1))
    slow: float = attrs.field(default=0.0, validator=is_number(least=0, most=1))
    delay: float = attrs.field(default=1.0, validator=is_number(least=0, unit="seconds"))
    make_error: Callable[[], Exception] = attrs.field(default=ConnectionError, validator=is_function())
    tools: Collection[str] | None = None
    seed: int | None = attrs.field(default=None, validator=is_type(int, optional=True))
    dice: Callable[[], float] | None = attrs.field(default=None, validator=is_function(optional=True), repr=False)
    sleep: Callable[[float], Awaitable[None]] = attrs.field(
        default=timing.sleep, validator=is_function(may_be_async=True), repr=False
    )
    injected: list[Injected] = attrs.field(factory=list[Injected], init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        together = round(sum(getattr(self, each) for each in _ONE_OF), 9)  # 0.7 + 0.2 + 0.1 is a little more than 1
        check_number("Chaos", " + ".join(_ONE_OF), together, most=1)
        if self.tools is not None:
            self.tools = read_names("Chaos", "tools", self.tools)
        if self.dice is not None and self.seed is not None:
            refuse("Chaos", "seed", "None where `dice` is given", self.seed)
        if self.dice is None:
            self.dice = random.Random(self.seed).random  # noqa: S311  # no secret is made of it

    async def __call__(self, call: V, call_next: Handler[V]) -> Outcome:
        """The inside's outcome, whole or cut; or `Crashed`, as if the tool had raised.

        Its cause is the exception of ``make_error``, a ConnectionResetError for a lost answer, or a TimeoutError.
        """
        if self.tools is not None and call.tool.name not in self.tools:
            return await call_next(call)
        if self._roll() < self.slow:
            self._note(call, "slow")
            await self.sleep(self.delay)
        fault = self._choose()
        if fault is None:
            return await call_next(call)
        self._note(call, fault)
        if fault == "error":
            return Failure(Crashed(self.make_error()))
        if fault == "cut_off":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await call_next(call)
            return Failure(Crashed(TimeoutError("Chaos: the tool was cut off")))
        outcome = await call_next(call)
        if fault == "lost":
            return Failure(Crashed(ConnectionResetError("Chaos: the answer was lost")))
        return Success(self._cut(outcome.unwrap())) if type(outcome) is Success else outcome

    def _choose(self) -> Fault | None:
        number = self._roll()
        for fault in _ONE_OF:
            number -= getattr(self, fault)
            if number < 0:
                return fault
        return None

    def _cut(self, value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(to_data(value)[0], ensure_ascii=False)
        return text[: int(len(text) * self._roll())]

    def _roll(self) -> float:
        dice: Any = self.dice
        rolled: float = dice()
        return rolled

    def _note(self, call: ValidCall, fault: Fault) -> None:
        self.injected.append(Injected(call.tool.name, call.id, fault))
        if call.report is not None:
            call.report.note(self, f"chaos: {fault}")
