"""The messages between a caller and a worker process: a job, and a reply to it.

Both travel as pickles that are made and read here, so that an argument or a result that cannot be pickled is reported
as such. The work in between is in `job_runner`.
"""

from __future__ import annotations

import pickle
from typing import Any, Literal, TypeAlias, cast

from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from returns.result import Failure

from ..base.setup_error import SetupError
from ..engine.call import ValidCall
from ..engine.call_state import LeftBehind, State, StateKey
from ..engine.errors import Crashed
from .body import get_seconds_left
from .remote_errors import Dumps, EncodedError, decode_error, encode_error
from .remote_progress import HeardSteps, Step

# The values that stages handed on, each as its pickle, or the text why it has none.
PickledState: TypeAlias = dict[str, bytes | str]
# For the tool's ToolContext: call id, attempt, idempotency key, seconds left, principal, deps, conversation, the tool's
# name, state, and how it reports progress (`ask_for_steps`). The seconds left and not the deadline, since the clocks of
# two machines have nothing in common.
ContextFields: TypeAlias = tuple[str, int, str, float | None, str, object, str, str, PickledState | None, str | None]
# Which function, its arguments, its ToolContext if it takes one, and the headers of the trace if there is one.
Job: TypeAlias = tuple[Any, dict[str, Any], ContextFields | None, dict[str, str] | None]
# The value of the tool; its exception, encoded; or the text why it did not begin or its result cannot be pickled.
ReplyKind: TypeAlias = Literal["returned", "raised", "not_begun", "unpicklable"]
Reply: TypeAlias = tuple[ReplyKind, Any, list[Step]]

_PLAIN_TYPES = frozenset((str, int, float, bool, type(None)))


def is_plain(value: object) -> bool:
    """Whether it certainly pickles, so that it can share one pickle with others and spoil nothing for them."""
    return type(value) in _PLAIN_TYPES


def encode_job(function: Any, call: ValidCall, dumps: Dumps = pickle.dumps, steps: str | None = None) -> bytes:
    """Pickle one call.

    Raises:
        SetupError: The arguments or the ``deps`` of the call cannot be pickled.
    """
    context: ContextFields | None = None
    if call.tool.context:
        left = get_seconds_left()
        state = None if call.state is None else _pickle_state(call.state, dumps)
        asks = call.idempotency_key, left, call.principal, call.deps, call.conversation
        context = (call.id, call.attempt, *asks, call.tool.name, state, steps)
    try:
        return dumps((function, call.params, context, _get_trace_headers()))
    except Exception as exc:
        what = "the arguments or the `deps` of the call" if context is not None else "the arguments of the call"
        raise SetupError(f"{call.tool.name}: {what} cannot be pickled for another process: {exc}") from exc


def _pickle_state(state: State, dumps: Dumps) -> PickledState:
    """Pickle each value by itself: a stage may hand something to another stage that no tool in a process reads."""
    pickled: PickledState = {}
    for key, value in state.items():
        try:
            pickled[key.name] = dumps(value)
        except Exception as exc:  # noqa: BLE001  # a foreign __reduce__ may raise anything
            pickled[key.name] = f"it cannot be pickled: {type(exc).__name__}"
    return pickled


def read_pickled_state(pickled: PickledState | None) -> State | None:
    """The state in the worker. A value that cannot be read there is an error for the tool that asks for it alone."""
    if pickled is None:
        return None
    state: dict[StateKey[Any], object] = {}
    for name, value in pickled.items():
        try:
            read: object = LeftBehind(value) if isinstance(value, str) else pickle.loads(value)  # noqa: S301  # our own
        except Exception as exc:  # noqa: BLE001  # a foreign __setstate__ may raise anything
            read = LeftBehind(f"it cannot be unpickled here: {type(exc).__name__}")
        state[StateKey[Any](name)] = read
    return state


def make_job(function: Any, call: ValidCall, dumps: Dumps, steps: str | None = None) -> Job | bytes:
    """Make one call ready to share a pickle with others: as a plain job, else in a pickle of its own."""
    if call.tool.context or not _PLAIN_TYPES.issuperset(map(type, call.params.values())):
        return encode_job(function, call, dumps, steps)
    return function, call.params, None, _get_trace_headers()


def encode_reply(reply: Reply, dumps: Dumps = pickle.dumps) -> bytes:
    """Pickle a reply. A result that cannot be pickled becomes a reply that says so."""
    kind, value, steps = reply
    if kind == "raised":
        return dumps((kind, encode_error(value, dumps), steps))
    try:
        return dumps(reply)
    except Exception as exc:  # noqa: BLE001  # a foreign __reduce__ may raise anything
        return dumps(("unpicklable", f"its result cannot be pickled: {type(exc).__name__}: {exc}", steps))


def encode_not_begun(exc: BaseException) -> bytes:
    """Pickle the reply to a job that cannot be read in the worker, or whose function is not there."""
    unread = f"its arguments cannot be unpickled in the worker: {type(exc).__name__}: {exc}"
    return encode_reply(("not_begun", str(exc) if isinstance(exc, SetupError) else unread, []))


def decode_reply(reply: bytes, heard: HeardSteps | None) -> object:
    """Read a reply in the process of the caller, and add the progress that came with it to the report of the call.

    Returns:
        The value of the tool. Or a ``Failure``: of the exception that it raised, with the worker's stack as its cause;
        of a `SetupError` if it did not begin; of a TypeError if its result cannot be pickled or read.
    """
    try:
        kind, value, steps = cast("Reply", pickle.loads(reply))  # noqa: S301  # from our own worker
    except Exception as exc:  # noqa: BLE001  # an object whose own pickle does not make it again
        return Failure(Crashed(TypeError(f"its result cannot be unpickled here: {type(exc).__name__}: {exc}")))
    if heard is not None:
        heard.hear(steps)
    if kind == "returned":
        return cast("object", value)
    if kind == "raised":
        return Failure(Crashed(cast("Any", decode_error(cast("EncodedError", value)))))
    return Failure(Crashed(SetupError(value) if kind == "not_begun" else TypeError(value)))


def _get_trace_headers() -> dict[str, str] | None:
    if not get_current():  # an empty context has nothing to carry, and this takes no time
        return None
    headers: dict[str, str] = {}
    inject(headers)
    return headers or None
