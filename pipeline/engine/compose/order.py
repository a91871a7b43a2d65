"""The rules for the order of stages, checked when a pipeline is built."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs

from ...base.setup_error import SetupError
from ..call import Call, ValidCall
from .stage import Stage, depth


def check_order(stages: Sequence[Stage]) -> None:
    """Check the stages of a pipeline, outermost first.

    Raises:
        SetupError: Two stages have one name; an observer is not outermost; a stage needs a later phase than there is
            at its place; there is not exactly one end, in the last place; a stage stands around one that it must
            stand inside of, or lacks one inside that it needs; or two stages repeat what is inside of them.
    """
    _check_names(stages)
    _check_ends(stages)
    _check_phases(stages)
    _check_placements(stages)
    _check_bodies(stages)


def with_look_up(stages: Sequence[Stage]) -> Sequence[Stage]:
    """The stages as they run: what begins a call looks its delivery up first, ahead of all that may hold it back.

    That is its method ``look_up``, a middleware, right after the call is valid but for stages that hold nothing back.
    """
    phase: type[Call] = Call
    outermost: int | None = None
    for place, stage in enumerate(stages):
        placement = stage.placement
        if placement.begins:
            look_up = getattr(stage.obj, "look_up", None)
            if outermost is None or look_up is None:
                break
            return [*stages[:outermost], attrs.evolve(stage, run=look_up), *stages[outermost:]]
        if outermost is None and placement.holds_back and issubclass(phase, ValidCall):
            outermost = place
        phase = max(phase, stage.phases()[1], key=depth)
    return stages


def _check_names(stages: Sequence[Stage]) -> None:
    seen: dict[str, Stage] = {}
    for stage in stages:
        if (first := seen.get(stage.name)) is not None:
            raise SetupError(
                f"two stages are called {stage.name!r}: {first.obj!r} and {stage.obj!r}; give one of them name="
            )
        seen[stage.name] = stage


def _check_ends(stages: Sequence[Stage]) -> None:
    for outside, stage in pairwise(stages):
        if stage.role == "observe" and outside.role != "observe":
            raise SetupError(f"{stage.name} must stand outermost, not after {outside.name}")
    if not stages or stages[-1].role != "end" or any(stage.role == "end" for stage in stages[:-1]):
        raise SetupError("a pipeline has one end, and it stands last")


def _check_phases(stages: Sequence[Stage]) -> None:
    phase: type[Call] = Call
    for stage in stages:
        if stage.role == "observe":
            continue
        takes, gives = stage.phases()
        if not issubclass(phase, takes):
            raise SetupError(f"{stage.name} needs a {takes.__name__} and stands where there is a {phase.__name__}")
        phase = max(phase, gives, key=depth)


def _check_bodies(stages: Sequence[Stage]) -> None:
    """What begins a call stands inside of all that may hold it back; what runs its body, of each check as well.

    Of several stages of one kind that begin it, the innermost decides.
    """
    for place, stage in enumerate(stages):
        placement, inside = stage.placement, stages[place + 1 :]
        if not (placement.begins or placement.runs_body):
            continue
        again = [at for at, inner in enumerate(inside) if placement.kind and inner.placement.kind == placement.kind]
        for inner in inside[again[-1] if again else 0 :]:
            if reason := inner.placement.holds_back:
                hint = f'put it there with .before("{stage.name}", …)'
                raise SetupError(f"{stage.name} must stand inside of {inner.name}: {reason}; {hint}")
            if placement.runs_body and inner.role == "check":
                raise SetupError(
                    f"{stage.name} runs the body, and must stand inside of {inner.name}, which decides whether it may"
                )


def _check_placements(stages: Sequence[Stage]) -> None:
    kinds = [stage.placement.kind for stage in stages]
    for place, stage in enumerate(stages):
        placement = stage.placement
        for inner_place, inner in enumerate(stages[place + 1 :], place + 1):
            reason = placement.inside_of.get(kinds[inner_place]) if kinds[inner_place] else None
            if reason is not None and not (placement.kind and placement.kind in kinds[inner_place:]):
                raise SetupError(f"{stage.name} must stand inside of {inner.name}: {reason}")
        for kind, reason in placement.needs.items():
            if kind not in (inside := kinds[place + 1 :]) and "" not in inside:  # who knows what your own stage does
                raise SetupError(f"{stage.name} needs {kind} inside of it: {reason}")
    closing = [stage.name for stage in stages if stage.placement.closes_tools]
    if len(closing) > 1:
        raise SetupError(f"{' and '.join(closing)} both close tools from outside; a pipeline has one such stage")
    repeating = [stage.name for stage in stages if stage.placement.repeats]
    if len(repeating) > 1:
        raise SetupError(f"{' and '.join(repeating)} both repeat what is inside of them; a pipeline has one such stage")
