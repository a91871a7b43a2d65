"""One stage of a stack: its name, its role, and the phases that it takes and gives."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from types import FunctionType, MethodType, UnionType
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
from returns.result import Failure

from ..call import Call, Outcome, ResolvedCall, ValidCall
from ..errors import SetupError, ToolError
from ..introspection import behind
from ..report import Observer
from .placement import ANYWHERE, Placement

In = TypeVar("In", bound=Call)
Out = TypeVar("Out", bound=Call)  # the bound keeps an async function from passing as a check

Handler: TypeAlias = Callable[[In], Awaitable[Outcome]]
Middleware: TypeAlias = Callable[[In, Handler[Out]], Awaitable[Outcome]]
Check: TypeAlias = Callable[[In], Out | Failure[ToolError]]
AnyStage: TypeAlias = Check[Any, Any] | Middleware[Any, Any] | Observer  # placed by name: checked when it is built
Role: TypeAlias = Literal["observe", "check", "wrap", "end"]

_CALLED_AS_THEY_ARE = (FunctionType, MethodType, functools.partial)  # their __call__ has no signature of its own
_PHASES: dict[str, Any] = {cls.__name__: cls for cls in (Call, ResolvedCall, ValidCall)}


@attrs.frozen
class Stage:
    """A stage as it stands in a stack."""

    name: str
    role: Role
    it: Any  # as the user gave it
    run: Callable[..., Any] = attrs.field(repr=False)  # a function or bound method: 50 ns less than an instance's call

    @classmethod
    def of(cls, it: Any, role: Role | None = None, name: str | None = None) -> Stage:
        """Raises SetupError for what is no stage, or not one of that role."""
        if isinstance(it, type):
            raise SetupError(f"{it.__name__} is a class: a stage is an instance of it, {it.__name__}(…)")
        name = name or _name_of(it)
        if role == "observe" or (role is None and hasattr(it, "begin") and not callable(it)):
            begin = getattr(it, "begin", None)
            if not callable(begin):
                raise SetupError(f"{name} is no observer: it has no method begin(tool, started)")
            return cls(name, "observe", it, begin)
        if not callable(it):
            raise SetupError(f"{it!r} is no stage: it cannot be called")
        run = cast("Callable[..., Any]", it if isinstance(it, _CALLED_AS_THEY_ARE) else it.__call__)
        found = role or _role_of(run, name)
        if unmet := [p.name for p in inspect.signature(run).parameters.values() if _is_unmet(p)]:
            raise SetupError(f"{name} wants {', '.join(unmet)}, which no pipeline gives")
        if found == "check" and inspect.iscoroutinefunction(behind(run)):
            raise SetupError(f"{name} is async, and a check does no I/O: make it a middleware")
        if found == "wrap" and _arity(run) == 1:
            raise SetupError(f"{name} takes a call only: a middleware takes call_next too")
        if found in ("check", "end") and _arity(run) == 2:  # noqa: PLR2004
            raise SetupError(f"{name} takes two arguments, as a middleware does: put it in with wrap")
        return cls(name, found, it, run)

    @property
    def finds(self) -> bool:
        """Whether it makes a ResolvedCall of a call that is none."""
        takes, gives = self.phases()
        return issubclass(gives, ResolvedCall) and not issubclass(takes, ResolvedCall)

    @property
    def placement(self) -> Placement:
        """What it declares about its place."""
        declared = getattr(self.it, "placement", None)
        return declared if isinstance(declared, Placement) else ANYWHERE

    def phases(self) -> tuple[type[Call], type[Call]]:
        """What it takes and what it hands on. Unannotated, or annotated past finding out: any call."""
        parameters = list(inspect.signature(self.run).parameters.values())
        takes = _phase(self._hint(parameters[0].annotation)) if parameters else Call
        if self.role == "wrap" and len(parameters) > 1:
            handler = self._hint(parameters[1].annotation)
            while get_origin(handler) is Annotated:
                handler = get_args(handler)[0]
            given: Any = get_args(handler)
            inside = given[0] if given and isinstance(given[0], list) else ()
            return takes, max(takes, _phase(inside[0]) if inside else Call, key=_depth)
        if self.role == "check":
            answer = self._hint(inspect.signature(self.run).return_annotation)
            given = [_phase(each) for each in (get_args(answer) or (answer,))]
            return takes, max(takes, *given, key=_depth)
        return takes, takes

    def _hint(self, written: Any) -> Any:
        """One annotation, found on its own: the others may exist for the type checkers only."""
        if not isinstance(written, str):
            return written
        plain: Any = behind(self.run)
        try:
            return eval(written, {**_PHASES, "Handler": Handler, **getattr(plain, "__globals__", {})})  # noqa: S307
        except Exception:  # noqa: BLE001  # a name for the type checkers only, or no expression at all
            return None


def _phase(hint: Any) -> type[Call]:
    """The phase that an annotation means: of several, the one that asks the least."""
    if isinstance(hint, TypeVar):
        hint = hint.__bound__ or Union[hint.__constraints__ or (Call,)]  # noqa: UP007  # of as many as there are
    if get_origin(hint) is Annotated:
        return _phase(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return min(map(_phase, get_args(hint)), key=_depth)
    return hint if isinstance(hint, type) and issubclass(hint, Call) else Call


def _is_unmet(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty


def _depth(phase: type[Call]) -> int:
    return len(phase.__mro__)


def _name_of(it: Any) -> str:
    plain = it.func if isinstance(it, functools.partial) else it
    name: str = getattr(plain, "__name__", None) or type(plain).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _arity(run: Callable[..., Any]) -> int | None:
    """How many arguments it must be given; None where any number will do."""
    parameters = inspect.signature(run).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _role_of(run: Callable[..., Any], name: str) -> Role:
    arity = _arity(run)
    if arity not in (1, 2):
        raise SetupError(f"{name} is no stage: a check takes (call), a middleware (call, call_next)")
    return "check" if arity == 1 else "wrap"


def ordered(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The same stages. Raises SetupError for a stage where it makes no sense, and for two of one name."""
    phase: type[Call] = Call
    seen: dict[str, Stage] = {}
    for place, stage in enumerate(stages):
        if (first := seen.get(stage.name)) is not None:
            raise SetupError(f"two stages named {stage.name!r}: {first.it!r} and {stage.it!r}; give one of them name=")
        seen[stage.name] = stage
        if stage.role == "observe":
            if place:
                raise SetupError(f"{stage.name} must stand outermost, not after {stages[place - 1].name}")
            continue
        takes, gives = stage.phases()
        if not issubclass(phase, takes):
            raise SetupError(f"{stage.name} needs a {takes.__name__} and stands where there is a {phase.__name__}")
        phase = max(phase, gives, key=_depth)
    if not stages or stages[-1].role != "end" or any(stage.role == "end" for stage in stages[:-1]):
        raise SetupError("a pipeline has one end, and it stands last")
    for place, stage in enumerate(stages):
        for inner in stages[place + 1 :]:
            if (reason := stage.placement.inside_of.get(inner.placement.kind)) is not None:
                raise SetupError(f"{stage.name} must stand inside of {inner.name}: {reason}")
    repeating = [stage.name for stage in stages if stage.placement.repeats]
    if len(repeating) > 1:
        raise SetupError(f"{' and '.join(repeating)} both repeat what is inside of them; a pipeline has one such stage")
    return stages


class Editable:
    """Stages found by name; what comes out is checked again when it is built."""

    parts: tuple[Stage, ...]

    def before(self, target: str, stage: AnyStage, /, *, name: str | None = None) -> Self:
        """The same with one more stage, right outside of the one named."""
        return self._edited(target, lambda old: (Stage.of(stage, name=name), old))

    def after(self, target: str, stage: AnyStage, /, *, name: str | None = None) -> Self:
        """The same with one more stage, right inside of the one named."""
        return self._edited(target, lambda old: (old, Stage.of(stage, name=name)))

    def replace(self, target: str, stage: AnyStage | Handler[Any], /) -> Self:
        """The same with another stage in place, and under the name, of the one named."""
        return self._edited(target, lambda old: (Stage.of(stage, "end" if old.role == "end" else None, old.name),))

    def without(self, target: str, /) -> Self:
        """The same without the stage named."""
        return self._edited(target, lambda _: ())

    def _edited(self, target: str, edit: Callable[[Stage], tuple[Stage, ...]]) -> Self:
        names = [part.name for part in self.parts]
        if target not in names:
            raise SetupError(f"there is no stage {target!r} here; there are {', '.join(names) or 'none'}")
        place = names.index(target)
        anew: Any = type(self)  # both of the two are made of their stages alone
        edited: Self = anew((*self.parts[:place], *edit(self.parts[place]), *self.parts[place + 1 :]))
        return edited
