"""What a model may see, and what stays with the developer: `PublicText`, and fields that hold a private cause."""

from __future__ import annotations

from typing import Any, LiteralString, NewType, TypeAlias, cast

import attrs

PublicText = NewType("PublicText", str)
# What an error takes for the model: a text that stands in the source, or one that somebody approved. So ``str(exc)``,
# a plain str, is a type error (pyright; to mypy a LiteralString is any str).
Public: TypeAlias = LiteralString | PublicText


def approved(text: str) -> PublicText:
    """An author's word that a model may see this text: ``approved(f"only {n} calls a minute")``.

    Raises TypeError for what is no text: an exception has to be put into words.
    """
    if not isinstance(cast("object", text), str):
        raise TypeError(f"only text can be approved for a model, and not {type(text).__name__}")
    return PublicText(text)


class RemoteCause(Exception):  # noqa: N818  # it stands for an exception of any name
    """What a pickle leaves of a private cause: the name of its type, and how much text was withheld."""

    def __init__(self, type_name: str, withheld: int = 0) -> None:
        super().__init__(type_name, withheld)
        self.type_name = type_name
        self.withheld = withheld  # characters of the original text

    def __str__(self) -> str:
        return f"{self.type_name} ({self.withheld} characters withheld)"


_PRIVATE = "private"


def _remote(cause: BaseException) -> RemoteCause:
    if isinstance(cause, RemoteCause):
        return cause
    try:
        withheld = len(str(cause))
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything, and this must not
        withheld = 0
    return RemoteCause(type(cause).__name__, withheld)


def error(cls: type[Any]) -> type[Any]:
    """``attrs.frozen``, and a pickle in which a private cause is replaced by its `RemoteCause`."""
    cls = attrs.frozen(cls)
    names = tuple(field.name for field in attrs.fields(cls))
    hidden = {field.name for field in attrs.fields(cls) if _PRIVATE in field.metadata}

    def reduce(self: Any) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in names}
        told = {n: _remote(v) if isinstance(v, BaseException) else v for n, v in values.items()}
        return _rebuilt, (cls, {n: v for n, v in told.items() if n not in hidden or isinstance(v, RemoteCause)})

    type.__setattr__(cls, "__reduce__", reduce)
    type.__setattr__(cls, "__copy__", _itself)  # frozen: a copy would only lose the cause
    type.__setattr__(cls, "__deepcopy__", _itself)
    return cls


def _itself(self: Any, _memo: object = None) -> Any:
    return self


def _rebuilt(cls: type[Any], values: dict[str, Any]) -> Any:
    return cls(**values)


def private(*, positional: bool = False) -> Any:
    """A field for the developer alone, as a cause for his log; of what is no exception a pickle keeps nothing."""
    return attrs.field(default=None, repr=False, eq=False, kw_only=not positional, metadata={_PRIVATE: True})
