"""StageList: how a stack and a pipeline are edited, stage by stage, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

from ...base.options import refuse
from ...base.setup_error import SetupError
from .stage import AnyStage, End, Role, Stage


class StageList:
    """Stages in order, outermost first. Each method returns a new list; a pipeline is checked again when it is made."""

    @property
    def entries(self) -> tuple[Stage, ...]:
        """The stages themselves, outermost first."""
        raise NotImplementedError

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, outermost first."""
        return tuple(stage.name for stage in self.entries)

    def before(self, target: str, stage: AnyStage, /, *, name: str | None = None) -> Self:
        """Put a stage right outside of the one called ``target``.

        Args:
            target: The name of a stage that is there.
            stage: A check, a middleware or an observer.
            name: The name of the new stage. None: the name of its function or class.

        Raises:
            SetupError: There is no such stage, or the new one is not a stage or makes no sense in that place.
        """
        return self._edit(target, lambda old: (make_stage(stage, name=name), old))

    def after(self, target: str, stage: AnyStage, /, *, name: str | None = None) -> Self:
        """Put a stage right inside of the one called ``target``; else as `before`."""
        return self._edit(target, lambda old: (old, make_stage(stage, name=name)))

    def replace(self, target: str, stage: AnyStage | End[Any], /) -> Self:
        """Put a stage in the place and under the name of the one called ``target``; raises as `before` does."""
        return self._edit(target, lambda old: (make_stage(stage, "end" if old.role == "end" else None, old.name),))

    def without(self, target: str, /) -> Self:
        """Leave out the stage called ``target``; raises as `before` does."""
        return self._edit(target, lambda _: ())

    def _edit(self, target: str, change: Callable[[Stage], tuple[Stage, ...]]) -> Self:
        if target not in self.stages:
            there = ", ".join(self.stages) or "none"
            raise SetupError(f"there is no stage {target!r}; there are: {there}{self._explain_missing(target)}")
        place = self.stages.index(target)
        return self._remake((*self.entries[:place], *change(self.entries[place]), *self.entries[place + 1 :]))

    def _explain_missing(self, target: str) -> str:  # noqa: ARG002  # a pipeline may know
        """The option that adds a stage of that name; "": none is known."""
        return ""

    def _remake(self, entries: tuple[Stage, ...]) -> Self:
        """The same list with other stages."""
        make: Any = type(self)
        return cast("Self", make(entries))


def check_stages(owner: str, option: str, given: object) -> None:
    """Raise SetupError for what is not a tuple of stages."""
    if not isinstance(given, tuple) or not all(isinstance(each, Stage) for each in cast("tuple[Any, ...]", given)):
        refuse(owner, option, "a tuple of stages, such as the entries of a Stack", cast("object", given))


def make_stage(obj: object, role: Role | None = None, name: str | None = None) -> Stage:
    """As `Stage.of`; SetupError also for a stack or a pipeline, whose stages would be hidden in one."""
    if isinstance(obj, StageList):
        raise SetupError(
            f"a {type(obj).__name__} is several stages and not one: put stacks together with `stack + stack`, and a "
            "pipeline at the end with `stack.end(pipeline)`"
        )
    return Stage.of(obj, role, name)
