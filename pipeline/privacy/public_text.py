"""The types of texts that a model may see, of causes that only the developer sees, and of secret parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString, NewType, TypeAlias, cast

import attrs

from ..base.foreign_values import or_default
from .kept_causes import HOLDS_CALLERS, release_frames

PublicText = NewType("PublicText", str)
# The type of every text that an error passes on to the model: a literal of the source code, or an approved text.
# ``str(exc)`` is a plain str and so a type error. (In pyright; mypy takes any str for a LiteralString.)
Public: TypeAlias = LiteralString | PublicText

_PRIVATE = "private"
_KEEP: Callable[[Any], Any] | None = release_frames if HOLDS_CALLERS else None
# Called with the path of each value that is to be recorded, such as ``filter.tags[1]``, and with the value: text, a
# number, a boolean, None, an object or an array before what is in it, or anything else that a caller passed. Returns
# what is recorded in its place.
Redact: TypeAlias = Callable[[str, object], object]
REDACTED: Final = "[redacted]"  # stands for a value that is not recorded


def approved(text: str) -> PublicText:
    """Declare that a model may see this text: ``approved(f"only {n} calls a minute")``.

    Raises:
        TypeError: ``text`` is not a str, such as an exception: write a text instead.
    """
    if not isinstance(cast("object", text), str):
        raise TypeError(f"approved() takes a str, not {type(text).__name__}")
    return PublicText(text)


class Secret:
    """Declares that values of a parameter are secret: ``Annotated[str, Secret]``, also inside of a model or a list.

    Such a value is given to the tool, and is recorded nowhere. It means the same as pydantic's ``SecretStr``, and as
    ``"writeOnly": true`` or ``"format": "password"`` in a JSON Schema, where the model sees it as ``"writeOnly"``.
    """

    @staticmethod
    def __get_pydantic_json_schema__(core_schema: Any, handler: Callable[[Any], Mapping[str, Any]]) -> dict[str, Any]:
        return {**handler(core_schema), "writeOnly": True}


class RemoteCause(Exception):  # noqa: N818  # it stands for an exception of any name
    """Replaces a private cause in a pickle.

    Args:
        type_name: The name of the exception's class.
        withheld: How many characters of text the exception had. Default 0.
        has_landed: Whether the exception said that the call had taken effect. Default False: it did not say that.
    """

    def __init__(self, type_name: str, withheld: int = 0, *, has_landed: bool = False) -> None:
        super().__init__(type_name, withheld)
        self.type_name = type_name
        self.withheld = withheld
        if has_landed:
            self.landed = "yes"  # as the exception had it

    def __str__(self) -> str:
        return f"{self.type_name} ({self.withheld} characters withheld)"


def private(*, positional: bool = False) -> Any:
    """Make an attrs field for the developer alone, such as a cause for the log. Its default is None.

    The field is in no ``repr`` and no comparison. Of an exception in it the stack keeps no variables. A pickle replaces
    an exception by a `RemoteCause`, and leaves out any other value.

    Args:
        positional: Whether the field may be given by position. Default False: by name only.
    """
    metadata = {_PRIVATE: True}
    field: Any = attrs.field
    return field(default=None, repr=False, eq=False, kw_only=not positional, metadata=metadata, converter=_KEEP)


def public_fields(cls: type[Any]) -> tuple[tuple[int, str], ...]:
    """Position and name of each field of an attrs class that takes a text for the model, by its type `Public`."""
    fields = enumerate(attrs.fields(cls))
    return tuple((position, field.name) for position, field in fields if str(field.type).startswith("Public"))


def reduce_publicly(value: Any) -> tuple[Any, ...]:
    """Take an attrs object apart for pickle: without private values, and with a `RemoteCause` for each exception."""
    cls = cast("type[Any]", type(value))
    kept: dict[str, Any] = {}
    for field in attrs.fields(cls):
        held = getattr(value, field.name)
        if isinstance(held, BaseException):
            kept[field.name] = _withhold_text(held)
        elif _PRIVATE not in field.metadata:
            kept[field.name] = held
    return _rebuild, (cls, kept)


def _rebuild(cls: type[Any], values: dict[str, Any]) -> Any:
    return cls(**values)


def _withhold_text(cause: BaseException) -> RemoteCause:
    if isinstance(cause, RemoteCause):
        return cause
    try:
        withheld = len(str(cause))
    except BaseException:  # noqa: BLE001  # a foreign __str__ may raise anything, and pickle must not
        withheld = 0
    return RemoteCause(type(cause).__name__, withheld, has_landed=says_landed(cause))


@or_default(default=False)  # an attribute of a foreign class may raise
def says_landed(cause: object) -> bool:
    """Whether an exception says by its attribute ``landed`` that the call has taken effect all the same."""
    landed: object = getattr(cause, "landed", None)
    return landed is True or landed == "yes"
