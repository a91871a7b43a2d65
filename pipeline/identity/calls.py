"""The identity of a call: the delivery that it is, and the intent that it has.

A *delivery* is one arrival of a call: principal, conversation, reply, call id, tool and arguments as written. An
*intent* is what it asks for: principal, conversation, tool and validated params. Two deliveries of one intent may both
be honest, as two equal payments are; one delivery that arrives twice is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ..base.foreign_values import FaultBarrier
from ..engine.call_state import StateKey
from ..parameters import read_arguments
from .digests import NotPlainError, canonical, digest, join_digest

if TYPE_CHECKING:
    from ..engine.call import Call, ResolvedCall
    from ..tools.definition import Tool


DELIVERY: StateKey[str] = StateKey("toolcall-pipeline.delivery")  # the name of an approval


def delivery_of(call: ResolvedCall, secret: bytes = b"", written: str = "") -> str:
    """The digest of the delivery that a call is; "": it has no id, so it is its own.

    An id that comes again with other arguments is another delivery: some providers number the calls of each reply anew.

    Args:
        call: The call.
        secret: See `join_digest`.
        written: Its `written_digest`, where that is known.
    """
    if named := call.get_state(DELIVERY, ""):  # it runs once, however it is sent or written
        return join_digest(call.principal, call.conversation, "approval", named, call.tool.name, secret=secret)
    if not call.id:
        return ""
    who = call.principal, call.conversation
    return join_digest(*who, call.reply, call.id, call.tool.name, written or written_digest(call), secret=secret)


def intent_of(call: ResolvedCall, params: Mapping[str, object], secret: bytes = b"", written: str = "") -> str:
    """The digest of what a call asks for.

    Args:
        call: The call; its principal, conversation and tool belong to the intent.
        params: Its validated params. If they hold an object that shows nothing to compare, the arguments as they were
            written count in their place.
        secret: See `join_digest`.
        written: Its `written_digest`, where that is known.
    """
    try:
        asked = params_digest(call.tool, params, known=(call.arguments, written))
    except NotPlainError:
        asked = "written:" + (written or written_digest(call))
    return join_digest(call.principal, call.conversation, call.tool.name, asked, secret=secret)


def params_digest(
    tool: Tool[..., Any],
    params: Mapping[str, object],
    secret: bytes = b"",
    known: tuple[object, str] = (None, ""),
) -> str:
    """The digest of validated params, without those equal to their declared default.

    So it makes no difference whether a model sends a default, and a release that adds one changes no digest.

    Args:
        tool: The tool, which declares the defaults.
        params: The params.
        secret: See `join_digest`.
        known: The arguments as they were written, and their digest without a secret, which is returned if it says the
            same. Default: that is not known.

    Raises:
        NotPlainError: An object in the params shows nothing to compare.
    """
    declared: Any = tool.parameters.schema.get("properties")
    defaults: Mapping[str, Any] = cast("Mapping[str, Any]", declared) if isinstance(declared, Mapping) else {}
    kept: dict[str, object] = {}
    try:
        for name, value in params.items():
            described: Any = defaults.get(name)
            if isinstance(described, Mapping) and "default" in described:
                default: object = cast("Any", described)["default"]
                if canonical(value) == canonical(default):
                    continue
            kept[name] = value
        arguments, written = known
        return written if written and _are_the_same(arguments, kept) else digest(kept, secret)
    except NotPlainError:
        raise
    except Exception as exc:  # an object of the tool's own may raise anything when it is looked into
        raise NotPlainError(type(exc).__name__) from exc


def _are_the_same(arguments: object, kept: dict[str, object]) -> bool:
    """Whether arguments have the very values of params, as those of a model that writes numbers as numbers."""
    if type(arguments) is not dict or len(cast("dict[Any, Any]", arguments)) != len(kept):
        return False
    return all(kept.get(name, kept) is value for name, value in cast("dict[Any, Any]", arguments).items())


def written_digest(call: Call, secret: bytes = b"") -> str:
    """The digest of the arguments as the model wrote them: of JSON by its content, of other text as it stands."""
    arguments: object = call.arguments
    with FaultBarrier():  # arguments of any class may raise when they are read
        read = read_arguments(arguments)
        return digest(arguments if read is None else read, secret)
    return join_digest("object", str(id(arguments)), secret=secret)
