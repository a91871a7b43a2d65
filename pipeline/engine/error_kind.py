"""ErrorKind: the facts that hold for all errors of one class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, Self, TypeAlias, TypedDict, Unpack, cast

import attrs

from ..privacy import reduce_publicly

if TYPE_CHECKING:
    from ..messages.wording import Wording

FixableBy: TypeAlias = Literal["model", "runtime", "human", "operator", "nobody"]
Category: TypeAlias = Literal["availability", "parameter", "execution", "internal"]
ErrorType: TypeAlias = Literal["validation", "not_found", "permission", "execution", "timeout"]
LogLevel: TypeAlias = Literal["info", "warning", "error"]
BreakerCount: TypeAlias = Literal["failure", "success", "ignored"]
BodyFact: TypeAlias = Literal["refused", "ran", "unsaid"]


class _Facts(TypedDict):
    fixable_by: FixableBy
    category: Category
    error_type: ErrorType
    log_level: LogLevel
    example: Mapping[str, object]
    breaker: NotRequired[BreakerCount]
    body: NotRequired[BodyFact]


class ErrorKind:
    """The base of all classes in `engine.errors`. A copy is the error itself; a pickle has no private cause.

    The facts about a kind are arguments of its class, and the type checkers verify them:
    ``class Denied(ErrorKind, fixable_by="human", …)``. An instance has them as attributes.

    Args:
        fixable_by: Who can make another attempt succeed.
        category: Where the call ended: at the choice of the tool, at its arguments, in the tool, or at a bug.
        error_type: The ``errorType`` of the profile ``structured``.
        log_level: The level of the record that a failed call leaves in the log.
        example: Fields of an example, see `make_example`.
        breaker: The count of a `CircuitBreaker`: a ``failure`` of the tool; a ``success``, which is any answer of the
            tool, even a refusal (the default); or nothing (``ignored``), because the tool did not run.
        body: The fact that the kind alone says: the body of the tool was ``refused``, so nothing happened; it
            ``ran``; or neither is said (``unsaid``, the default).
    """

    __slots__ = ("_change", "_maker", "_times", "_wording")  # no fields: they are no part of the error
    fixable_by: ClassVar[FixableBy]
    category: ClassVar[Category]
    error_type: ClassVar[ErrorType]
    log_level: ClassVar[LogLevel]
    example: ClassVar[Mapping[str, object]]
    breaker: ClassVar[BreakerCount] = "success"
    body: ClassVar[BodyFact] = "unsaid"
    # The fields that a text template may use, and the attribute that each is made of, such as ``details.suggestion``.
    template_fields: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **facts: Unpack[_Facts]) -> None:
        # attrs copies the class to add slots. The copy gets no arguments, and has the facts already.
        for name, value in facts.items():
            setattr(cls, name, value)

    @classmethod
    def make_example(cls) -> Self:
        """Make an error of this kind with plausible fields: lint, benchmarks and tests try each kind by it."""
        return cast("Any", cls)(**cls.example)  # type: ignore[no-any-return]  # the fields are those of a subclass

    @property
    def wording(self) -> Wording | None:
        """How the pipeline that answered words it. It is in no comparison, ``repr`` or pickle. None: as by default."""
        return getattr(self, "_wording", None)

    @property
    def times(self) -> int:
        """How often this call was refused in its conversation, if that is told to the model; else 0."""
        return getattr(self, "_times", 0)

    @property
    def change(self) -> str:
        """A sentence for the model: the change since the last failure of the tool in the conversation; or ""."""
        return getattr(self, "_change", "")

    @property
    def says_more(self) -> bool:
        """Whether its text says how often the call came, or what changed."""
        return bool(self.times or self.change)

    def worded(self, wording: Wording | None) -> Self:
        """A copy with this wording: a tool may share one error among its calls. The error itself if it has it."""
        return self if wording is self.wording else self._with("_wording", wording)

    def sent_again(self, times: int) -> Self:
        """A copy that tells the model how often it has sent this call: stages may share one error."""
        return self._with("_times", times)

    def since_last(self, change: str) -> Self:
        """A copy that tells the model what changed."""
        return self._with("_change", change)

    @property
    def maker(self) -> object:
        """The stage that made it of a result, where its kind does not say so. None: its kind and its cause say it."""
        return getattr(self, "_maker", None)

    def made_by(self, stage: object) -> Self:
        """A copy that knows the stage that made it: a call without a record names it in the log."""
        return self._with("_maker", stage)

    def _with(self, name: str, value: object) -> Self:
        copy = self.changed()
        object.__setattr__(copy, name, value)
        return copy

    def changed(self, **fields: Any) -> Self:
        """A copy with other fields, and what is no field as it is here."""
        copy: Self = attrs.evolve(cast("Any", self), **fields)
        for name in ErrorKind.__slots__:
            if hasattr(self, name):
                object.__setattr__(copy, name, getattr(self, name))
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_publicly(self)

    def __copy__(self) -> Self:
        return self  # frozen, and a pickled copy would lose the cause

    def __deepcopy__(self, _memo: object) -> Self:
        return self
