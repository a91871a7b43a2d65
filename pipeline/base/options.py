"""Checks of the options of stages, executors and functions, run before anything is built from them.

Each check raises `SetupError` with a text of one form: "Concurrency: `limit` must be an integer ≥ 1, not 1.5". An entry
of a mapping is named as Python writes it: "Retry: `tools['search']['attempts']` must be …". A bool does not count as a
number, nor does NaN. `is_count` and the like make a validator of attrs from a check, for the fields of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf, isinf, nan
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

import attrs

from .foreign_values import or_default
from .introspection import is_async
from .setup_error import SetupError

_P = ParamSpec("_P")
_Check: TypeAlias = Callable[Concatenate[str, str, Any, _P], object]
_Validator: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]
_SHOWN = 200  # characters of the given value


def refuse(owner: str, option: str, allowed: str, given: object) -> NoReturn:
    """Raise SetupError for an option."""
    raise SetupError(f"{owner}: `{option}` must be {allowed}, not {_show(given)}")


def check_count(
    owner: str, option: str, given: object, least: int = 1, *, most: float = inf, optional: bool = False
) -> None:
    """_Check an integer from ``least`` to ``most``. With ``optional``, None is allowed too."""
    if optional and given is None:
        return
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        bounds = f"≥ {least}" if most == inf else f"from {least} to {most}"
        refuse(owner, option, f"an integer {bounds}" + _or_none(optional=optional), given)


def check_number(
    owner: str,
    option: str,
    given: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float = inf,
    infinite: bool = False,
    optional: bool = False,
    unit: str = "",
) -> None:
    """_Check a number: above ``above``, and from ``least`` to ``most``. ``unit`` is for the text."""
    if optional and given is None:
        return
    number = _read_number(given)
    is_inside = (above is None or number > above) and (least is None or number >= least) and number <= most
    if not is_inside or (isinf(number) and not infinite):
        bounds = [f"> {above}"] if above is not None else [f"≥ {least}"] if least is not None else []
        bounds += ["finite"] if isinf(number) and not infinite else [f"≤ {most}"] if most < inf else []
        allowed = f"a number of {unit}" if unit else "a number"
        refuse(owner, option, f"{allowed} {' and '.join(bounds)}".rstrip() + _or_none(optional=optional), given)


def check_function(
    owner: str, option: str, given: object, else_: str = "", *, optional: bool = False, may_be_async: bool = False
) -> None:
    """_Check a function. ``else_`` is what the text names beside it, such as "a ToolRegistry or"."""
    if optional and given is None:
        return
    if not callable(given) or (is_async(given) and not may_be_async):
        function = "a function" if may_be_async else "a plain function"
        refuse(owner, option, f"{else_} {function}".lstrip() + _or_none(optional=optional), given)


def read_names(owner: str, option: str, given: object, choices: Collection[str] | None = None) -> frozenset[str]:
    """_Check a collection of names, and return them. A text is refused, though it is a collection of texts."""
    allowed = "a collection of names of tools" if choices is None else f"a collection of {', '.join(choices)}"
    names = read_items(owner, option, given, allowed.removeprefix("a collection of "))
    if not all(isinstance(name, str) and (choices is None or name in choices) for name in names):
        refuse(owner, option, allowed, cast("object", given) if isinstance(given, Collection) else names)
    return frozenset(names)


def read_items(owner: str, option: str, given: object, what: str) -> list[Any]:
    """_Check a collection of ``what``, and return its items, which the caller checks."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        refuse(owner, option, f"a collection of {what}", given)
    return list(cast("Iterable[Any]", given))


def read_by_name(owner: str, option: str, given: object, what: str = "tools") -> Mapping[str, Any]:
    """_Check a mapping from the names of ``what``, and return it. The caller checks its values."""
    by_name = cast("Mapping[Any, Any]", given)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in by_name):
        refuse(owner, option, f"a mapping by the names of {what}", by_name)
    return by_name


def check_type(
    owner: str, option: str, given: object, kind: type[Any], *, optional: bool = False, name: str = ""
) -> None:
    """_Check an instance of a class, which the text calls by ``name``. Default "": the name of the class."""
    if not isinstance(given, kind) and not (optional and given is None):
        name = name or kind.__name__
        refuse(owner, option, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" + _or_none(optional=optional), given)


def check_secret(owner: str, given: object, most: int) -> None:
    """_Check the key of digests: bytes, at most so many. It is not quoted."""
    if not isinstance(given, bytes) or len(given) > most:
        held = f"{len(given)} bytes" if isinstance(given, bytes) else f"a {type(given).__name__}"
        raise SetupError(f"{owner}: `secret` must be at most {most} bytes, not {held}")


def _read_number(given: object) -> float:
    """Return a number as a float: NaN for anything that is not a number, infinity if it is too large for a float."""
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        return nan
    try:
        return float(given)
    except OverflowError:
        return inf


def _or_none(*, optional: bool) -> str:
    return " or None" if optional else ""


def _show(given: object) -> str:
    text = or_default(f"<{type(given).__name__}>")(repr)(given)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def read_url(option: str, given: str) -> SplitResult:
    """Split an HTTP URL into its parts; SetupError if it is none, or has no host."""
    why = ""
    try:
        parts = urlsplit(given)
        _ = parts.port  # raises if it is not a port
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts
    except ValueError as exc:
        why = f": {exc}"
    raise SetupError(
        f"`{option}` must be an http:// or https:// URL, such as http://localhost:4318, not {given!r}{why}"
    )


def maps_names(check: _Check[_P], *args: _P.args, **kwargs: _P.kwargs) -> _Validator:
    """Make a validator of a mapping from the names of tools to values that pass a check; see `_make_validators`."""

    def validate(owner: object, field: attrs.Attribute[Any], given: object) -> None:
        option = field.alias or field.name
        for name, value in read_by_name(type(owner).__name__, option, given).items():
            check(type(owner).__name__, f"{option}[{name!r}]", value, *args, **kwargs)

    return validate


def _make_validators(check: _Check[_P]) -> Callable[_P, _Validator]:
    """Return a function that takes the further arguments of a check, and makes a validator of attrs from it.

    The class of the field is the owner of the option, and the field's name in ``__init__`` is the option.
    """

    def make(*args: _P.args, **kwargs: _P.kwargs) -> _Validator:
        def validate(owner: object, field: attrs.Attribute[Any], given: object) -> None:
            check(type(owner).__name__, field.alias or field.name, given, *args, **kwargs)

        return validate

    return make


is_count = _make_validators(check_count)
is_number = _make_validators(check_number)
is_function = _make_validators(check_function)
is_type = _make_validators(check_type)
