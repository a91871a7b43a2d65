"""The identity of a call: the delivery that it is, and the intent that it has.

A *delivery* is one arrival of a call: principal, conversation, reply, call id, tool and arguments as written. An
*intent* is what it asks for: principal, conversation, tool and validated params. Two deliveries of one intent may both
be honest, as two equal payments are; one delivery that arrives twice is one.

What is answered, replayed, joined, approved or given a key goes by strict equality, what is refused by loose equality.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import attrs

from ..base.foreign_values import FaultBarrier
from ..engine.call import make_uuid
from ..engine.call_state import WITHIN, StateKey
from ..parameters import read_arguments
from .digests import NotPlainError, digest_text, is_written_alike, join, join_digest, write_loose, write_strict

if TYPE_CHECKING:
    from ..engine.call import Call, ResolvedCall
    from ..parameters import Parameters
    from ..tools.definition import Tool


_BARRIER = FaultBarrier()
_join_caller = lru_cache(join)  # most calls come from few callers
DELIVERY: StateKey[str] = StateKey("toolcall-pipeline.delivery")  # the name of an approval


@attrs.define  # never changed, and not frozen: one is made for each call, in half of the time
class Asked:
    """What a call asks for, as texts.

    Attributes:
        strict: Equal for strictly equal params. "": they hold a value without a form, so no other call is equal.
        loose: Equal for loosely equal params; where those have no form, for arguments that were written alike.
    """

    strict: str
    loose: str


@attrs.define  # as above
class Intent:
    """The digests of what a call asks for, with its principal, conversation and tool.

    Attributes:
        strict: For what is answered, joined, approved or given a key. "": no other call is equal.
        loose: For what is refused.
    """

    strict: str
    loose: str


def delivery_of(call: ResolvedCall, secret: bytes = b"", written: str = "") -> str:
    """The digest of the delivery that a call is; "": it has no id, so it is its own.

    An id that comes again with other arguments is another delivery: some providers number the calls of each reply anew.

    Args:
        call: The call.
        secret: See `join_digest`.
        written: What `write_arguments` makes of it, where that is known.
    """
    who, named = (call.principal, call.conversation), call.id
    if call.state is not None:
        if approval := call.get_state(DELIVERY, ""):  # it runs once, however it is sent or written
            return join_digest(*who, "approval", approval, call.tool.name, secret=secret)
        named = call.get_state(WITHIN, named)
    if not named:
        return ""
    given = join(call.reply, named, call.tool.name, written or write_arguments(call))
    return digest_text(_join_caller(*who) + given, secret)


def intent_of(call: ResolvedCall, params: Mapping[str, object], secret: bytes = b"", written: str = "") -> Intent:
    """The digests of what a call asks for.

    Args:
        call: The call; its principal, conversation and tool belong to the intent.
        params: Its validated params.
        secret: See `join_digest`.
        written: What `write_arguments` makes of it, where that is known.
    """
    asked = read_asked(call, params, written)
    who = _join_caller(call.principal, call.conversation, call.tool.name)
    loose = digest_text(who + join(asked.loose), secret)
    if asked.strict == asked.loose:
        return Intent(loose, loose)
    return Intent(asked.strict and digest_text(who + join(asked.strict), secret), loose)


def read_asked(call: ResolvedCall, params: Mapping[str, object] | None, written: str = "") -> Asked:
    """What a call asks for, without its caller and tool.

    Args:
        call: The call.
        params: Its validated params; None: they are not known.
        written: What `write_arguments` makes of it, where that is known.
    """
    if params is not None:
        try:
            return _read_params(call, params, written)
        except BaseException as exc:  # an object of the tool's own may raise anything when it is read
            if not _BARRIER.stops(exc):
                raise
    return Asked("", f"written:{written or write_arguments(call)}")


def _read_params(call: ResolvedCall, params: Mapping[str, object], written: str) -> Asked:
    """Both forms: strict with the defaults that the tool will see, loose without params that equal their default.

    So a release that adds a parameter with a default, or changes a default, frees no repeat of a lost call.
    """
    defaults = _find_defaults(call.tool)
    if written and not defaults and _are_the_same(call.arguments, params):
        return Asked(written, written)
    strict = {name: _or_none(value) for name, value in params.items()}
    is_plain = "" not in strict.values()
    strict |= {name: each.strict for name, each in defaults.items() if each.is_seen and name not in params}
    loose = _write_loosely(params, call.tool.parameters.schema, defaults)
    return Asked(_join(strict) if is_plain else "", _join(loose))


def are_alike(tool: Tool[..., Any], one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether the params of two calls of a tool are loosely equal. Params without a form equal none.

    As the loose forms of `read_asked`, which are written only where the values themselves do not tell.
    """
    try:
        if one.keys() != other.keys():
            schema, defaults = tool.parameters.schema, _find_defaults(tool)
            return _join(_write_loosely(one, schema, defaults)) == _join(_write_loosely(other, schema, defaults))
        for name, value in one.items():
            given, kind = other[name], type(value)
            if kind is type(given) and (kind is int or (is_written_alike(value) and is_written_alike(given))):
                if value != given:
                    return False
            elif write_loose(value, schema := tool.parameters.schema, (name,)) != write_loose(given, schema, (name,)):
                return False
    except Exception:  # noqa: BLE001  # as a barrier does, in a third of its time: an object may raise anything
        return False
    return True


def _write_loosely(
    params: Mapping[str, object], schema: Mapping[str, Any], defaults: Mapping[str, _Default]
) -> dict[str, str]:
    """The loose forms of params, without those that equal their default."""
    loose: dict[str, str] = {}
    for name, value in params.items():
        form = write_strict(value) if is_written_alike(value) else write_loose(value, schema, (name,))
        if name not in defaults or defaults[name].loose != form:
            loose[name] = form
    return loose


def _or_none(value: object) -> str:
    """The strict form of a value; "": it has none, so it equals nothing."""
    try:
        return write_strict(value)
    except NotPlainError:
        return ""


def _join(forms: Mapping[str, str]) -> str:
    """As `write_strict` writes a dict."""
    return f"m{len(forms)}:{''.join(sorted([f's{len(name)}:{name}{form}' for name, form in forms.items()]))}"


def _are_the_same(arguments: object, params: Mapping[str, object]) -> bool:
    """Whether params are the very values of arguments, and their two forms are one."""
    if type(arguments) is not dict or len(cast("dict[Any, Any]", arguments)) != len(params):
        return False
    given: dict[Any, Any] = cast("dict[Any, Any]", arguments)
    for name, each in params.items():
        if name not in given or given[name] is not each or not (type(each) is int or is_written_alike(each)):
            return False
    return True


@attrs.frozen
class _Default:
    """The default of one parameter.

    Attributes:
        strict: Its form.
        loose: Its loose form.
        is_seen: Whether the tool's function has it, and not the schema alone.
    """

    strict: str
    loose: str
    is_seen: bool


_DEFAULTS: WeakKeyDictionary[Parameters, dict[str, _Default]] = WeakKeyDictionary()


def _find_defaults(tool: Tool[..., Any]) -> dict[str, _Default]:
    """The defaults of a tool, by parameter. One without a form is that of this tool and no other."""
    found = _DEFAULTS.get(tool.parameters)
    if found is None:
        found = dict[str, _Default]()
        schema = tool.parameters.schema
        declared: Any = schema.get("properties")
        if isinstance(declared, Mapping):
            for name, described in cast("Mapping[str, Any]", declared).items():
                if isinstance(described, Mapping) and "default" in described:
                    _note_default(found, schema, name, cast("Any", described)["default"], is_seen=False)
        with FaultBarrier():  # not every callable shows its signature
            for name, each in inspect.signature(tool.fn).parameters.items():
                if each.default is not inspect.Parameter.empty and not hasattr(each.default, "default_factory"):
                    _note_default(found, schema, name, each.default, is_seen=True)
        _DEFAULTS[tool.parameters] = found
    return found


def _note_default(
    found: dict[str, _Default], schema: Mapping[str, Any], name: str, value: object, *, is_seen: bool
) -> None:
    form = _or_none(value)
    found[name] = _Default(form, write_loose(value, schema, (name,)) if form else "", is_seen)


def write_arguments(call: Call) -> str:
    """The form of the arguments as the model wrote them: of JSON by its content, of other text as it stands."""
    arguments: object = call.arguments
    try:
        read = read_arguments(arguments)
        return write_strict(arguments if read is None else read)
    except BaseException as exc:  # arguments of any class may raise when they are read
        if not _BARRIER.stops(exc):
            raise
    return f"object:{make_uuid()}"  # it equals nothing


def are_written_alike(one: Call, other: Call) -> bool:
    """Whether the arguments of two calls were written alike."""
    return one.arguments is other.arguments or write_arguments(one) == write_arguments(other)
