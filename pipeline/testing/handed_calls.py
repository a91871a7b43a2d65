"""What a stage hands on, and what it does to the call that it was given."""

from __future__ import annotations

from typing import Any, Self

import attrs

from ..call import Call
from .probes import Breaks

_KEPT = ("id", "deps", "idempotency_key")  # what the tool knows the call by
_COPIES = "a copy made with attrs.evolve(call, …), with_params or with_state"


def check_handed_on(breaks: Breaks, given: Call, handed: Any, phase: type[Call]) -> None:
    """Raises AssertionError if that is neither the call that the stage was given nor a copy, of this phase."""
    if handed is given:
        return
    if not isinstance(handed, phase):
        breaks.rule(f"it hands on a {type(handed).__name__} where it has to be a {phase.__name__}")
    lost = [name for name in _KEPT if hasattr(given, name) and getattr(handed, name) != getattr(given, name)]
    if given.report is not handed.report:
        lost.append("report")
    if not set(_guards_of(given)) <= set(_guards_of(handed)):
        lost.append("guards")
    if given.state and not given.state.keys() <= (handed.state or {}).keys():
        lost.append("state")
    if lost:
        breaks.rule(
            f"it hands on a call of its own making, without {', '.join(lost)}: hand on the call that you were given, "
            f"or {_COPIES}"
        )


@attrs.define(eq=False)
class Unchanged:
    """Raises AssertionError if the call is changed in the block."""

    breaks: Breaks
    call: Call
    before: dict[str, Any] = attrs.field(init=False)
    params: dict[str, Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.before = {each.name: getattr(self.call, each.name) for each in attrs.fields(type(self.call))}
        self.params = dict(getattr(self.call, "params", {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, exc: object, traceback: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raises AssertionError if it is changed now."""
        changed = [name for name, value in self.before.items() if getattr(self.call, name) is not value]
        if getattr(self.call, "params", {}) != self.params:
            changed.append("params")
        if changed:
            self.breaks.rule(f"it changes the call that it was given ({', '.join(changed)}): hand on {_COPIES}")


def _guards_of(call: Call) -> tuple[Any, ...]:
    return () if call.guards is None else call.guards.each
