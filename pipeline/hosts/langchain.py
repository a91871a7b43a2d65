"""LangChain and LangGraph: ``create_agent(model, tools, middleware=[ToolcallMiddleware()])``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from itertools import takewhile
from traceback import walk_tb
from typing import Any, cast

import attrs

from ..adapters.common import says_error
from ..approvals import Approval
from ..base.foreign_values import FaultBarrier
from ..base.options import check_type
from ..engine.batch import without_twins
from ..engine.call import Call, Outcome, ResolvedCall, ValidCall, is_failure
from ..engine.compose import Pipeline
from ..engine.errors import ExecutionFailed, InvalidParams
from ..messages import File, Image, Wording, render
from ..privacy import get_logger
from ..tools import Effect, ToolView
from .approving import Decision, HostApprovals
from .framework import foresee, list_media, list_offered, requires
from .framework_reading import ModelReader, Reader, load
from .framework_spans import below_openinference
from .host import ControlFlow, Host, HostTool
from .signed_calls import Find, Signer

with requires("langchain"):
    from langchain.agents import factory
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
    from langchain.agents.structured_output import AutoStrategy, ToolStrategy
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.runnables.config import ensure_config
    from langchain_core.tools import BaseTool, Tool, ToolException
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph import errors
    from langgraph.errors import GraphBubbleUp
    from langgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
    from langgraph.types import interrupt
    from pydantic import BaseModel, ValidationError


__all__ = ["ToolcallMiddleware", "export_tools"]

_logger = get_logger()
_UNREAD = "invalid_json"  # the only key of the arguments of a call whose text LangChain could not read
_FOREIGN = (("Error: ", "\n Please fix your mistakes."), ("Error invoking tool ", " and try again."))
_AUTHORED = "Error: ToolException("  # the first of these texts, around the words of a tool's author
_MAX_UNREAD = 3  # replies in a row of nothing but calls that nobody can read; after them LangChain ends the run
_ANSWERS = 'Command(resume={"decision": "approve"}), Command(resume={"decision": "reject", "message": "…"})'
_FILLED = "runtime"  # a parameter that LangGraph fills in by its name
# Middleware whose author says which exceptions of a tool end the run.
_CHOOSING = tuple(f"{AgentMiddleware.__module__.rpartition('.')[0]}.{name}" for name in ("tool_error", "tool_retry"))


class ToolcallMiddleware(AgentMiddleware[Any, Any, Any]):
    """Puts the pipeline around every tool call of an agent, sync or async.

    LangGraph's own control flow (interrupts, commands) passes untouched, and injected state stays LangGraph's.
    Names and arguments are put right in the model's reply, so that an approval judges the call that will run. A call
    whose arguments LangChain could not read is one as well, so that the model hears of it.

    Args:
        effects: The effects of tools by name; else ``metadata={"effect": "read"}`` of the tool; else ``mutating``.
        tools: Tools that the model reads about while the agent runs, which the agent itself does not list. Default:
            none.
        options: Options of `Host`, such as ``timeout=60``. ``principal=`` and ``conversation=`` get the
            ``ToolCallRequest``. Without them the principal is the ``user_id`` of the run's configuration, and the
            conversation its ``thread_id``, else the run.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, tools: Any = (), **options: Any) -> None:
        super().__init__()
        self.host = Host(effects, passes=(GraphBubbleUp,), answers=ToolMessage, **options)
        self._further: tuple[BaseTool, ...] = tuple(tools)
        for each in self._further:
            check_type("ToolcallMiddleware", "tools", each, BaseTool)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Put right what the model's calls mean beyond doubt, before an approval judges them."""
        return _Reply.to(request, self._offer(request.tools)[0]).put_right(handler(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """As `wrap_model_call`."""
        return _Reply.to(request, self._offer(request.tools)[0]).put_right(await handler(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run one call in the caller's thread."""
        pipeline, call, tools = self._read(request)
        told: list[ToolMessage] = []

        def body(valid: ValidCall) -> object:
            try:
                return self._check(handler(_write(request, valid, tools)), told)
            except Exception as exc:  # noqa: BLE001  # raised again, unless it is the author's words
                return self._read_error(exc, handler)

        with below_openinference():
            outcome = self.host.run_sync(pipeline, call, body, request)
        return _answer(request, call, outcome, told)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run one call."""
        pipeline, call, tools = self._read(request)
        told: list[ToolMessage] = []

        async def body(valid: ValidCall) -> object:
            try:
                return self._check(await handler(_write(request, valid, tools)), told)
            except Exception as exc:  # noqa: BLE001  # raised again, unless it is the author's words
                return self._read_error(exc, handler)

        with below_openinference():
            outcome = await self.host.run(pipeline, call, body, request)
        return _answer(request, call, outcome, told)

    def _read(self, request: Any) -> tuple[Pipeline, Call, dict[str, BaseTool]]:
        offered, tools = self._offer([*request.runtime.tools, *([request.tool] if request.tool else ())])
        sent = request.tool_call
        unread = _read_unread(sent["args"], tools.get(sent["name"]))
        principal, conversation = _find_caller(request)
        args = sent["args"] if unread is None else unread
        call = Call(sent["name"], args, sent["id"] or "", principal=principal, conversation=conversation)
        return offered, call, tools

    def _offer(self, every: Iterable[Any]) -> tuple[Pipeline, dict[str, BaseTool]]:
        tools = {tool.name: tool for tool in (*self._further, *every) if isinstance(tool, BaseTool)}
        return self.host.offer({name: self.host.describe(tool, describe) for name, tool in tools.items()}), tools

    def _read_error(self, exc: Exception, handler: object) -> object:
        if (landed := _passes(exc, handler)) is not None:
            raise ControlFlow(exc, landed=landed) from None
        if isinstance(exc, ToolException):
            return self.host.refuse_authored(exc)
        raise exc

    def _check(self, answer: object, told: list[ToolMessage]) -> object:
        if not isinstance(answer, ToolMessage) or answer.status != "error":
            return answer
        text = answer.text
        told[:] = [answer]
        if any(text.startswith(first) and text.endswith(last) for first, last in _FOREIGN):
            return (self.host.refuse_authored if text.startswith(_AUTHORED) else self.host.refuse_foreign)(text)
        return self.host.refuse_authored(text)  # of a ToolException, or of a function that the author gave


def _passes(exc: Exception, handler: object) -> object:
    """Whether an exception ends the run as it came, for it is no failure of the tool.

    Returns:
        What is known of the tool's effect: False, nothing ran, for the exception is another middleware's, or says that
        a person's answer does not fit; "maybe", the tool failed, and the author of a middleware lets that end the run.
        None: the tool failed.
    """
    if getattr(errors, "is_invalid_resume", bool)(exc) is True:
        return False
    if getattr(handler, "__module__", "") != factory.__name__:  # LangGraph's own, and no further middleware's
        return None
    for module in (frame.f_globals.get("__name__") for frame, _ in walk_tb(exc.__traceback__)):
        if module == ToolNode.__module__:
            return None
        if module in _CHOOSING:
            return "maybe"
    return False


def _read_unread(args: Mapping[str, Any], tool: BaseTool | None) -> str | None:
    """Return the text that LangChain could not read as arguments; None: it could."""
    if set(args) != {_UNREAD} or not isinstance(text := args[_UNREAD], str):
        return None
    return None if tool is not None and _UNREAD in tool.args else text


def _find_caller(request: Any) -> tuple[str, str]:
    """The principal and the conversation that a run of a graph knows.

    A run without a thread is a conversation of its own: LangGraph gives its first message an id.
    """
    user, thread = _read_config(request.runtime.config)
    held: object = request.state
    messages = cast("Mapping[str, Any]", held).get("messages") if isinstance(held, Mapping) else None
    return user, thread or str((getattr(messages[0], "id", None) if messages else None) or "")


def _read_config(config: Any) -> tuple[str, str]:
    """The user and the thread, else the run, of the configuration of a run; "" for what it does not know."""
    known: Mapping[str, Any] = config.get("configurable") or {}
    user = known.get("user_id") or known.get("langgraph_auth_user_id") or ""
    return str(user), str(known.get("thread_id") or config.get("run_id") or "")


def _write(request: ToolCallRequest, call: ValidCall, tools: Mapping[str, BaseTool]) -> ToolCallRequest:
    sent: Any = {**request.tool_call, "name": call.tool.name, "args": dict(call.params)}
    return request.override(tool_call=sent, tool=tools[call.tool.name])


def _answer(request: ToolCallRequest, call: Call, outcome: Outcome, told: list[ToolMessage]) -> Any:
    """Return the message; LangChain's own message for a failure keeps its blocks, its artifact and its id."""
    sent = request.tool_call
    if not is_failure(outcome):
        answered: Any = outcome.unwrap()
        if isinstance(answered, str):  # of a message that a store keeps as text: the graph would ask for it for ever
            return ToolMessage(answered, name=sent["name"], tool_call_id=sent["id"] or "")
        if isinstance(answered, ToolMessage) and sent["id"] and answered.tool_call_id != sent["id"]:  # of an equal call
            return answered.model_copy(update={"tool_call_id": sent["id"]})
        return answered
    error = outcome.failure()
    if told and isinstance(error, ExecutionFailed):
        is_own = str(error.message) == told[-1].text
        return told[-1] if is_own else told[-1].model_copy(update={"content": render(outcome, call=call)})
    words = _find_words(request.tool, call) if isinstance(error, InvalidParams) else None
    text = render(outcome, call=call) if words is None else words
    return ToolMessage(text, name=sent["name"], tool_call_id=sent["id"] or "", status="error")


def _find_words(tool: BaseTool | None, call: Call) -> str | None:
    """Return the words of the author of a tool for arguments that its model refuses; None: the author has none."""
    words: Any = None if tool is None else tool.handle_validation_error
    read = None if tool is None else _find_reader(tool)
    if read is None or not (isinstance(words, str) or callable(words)):
        return None
    with FaultBarrier(_logger, "handle_validation_error failed"):
        try:
            read(call.arguments)
        except ValidationError as exc:
            return words if isinstance(words, str) else str(words(exc))
    return None


@attrs.frozen
class _Reply:
    """The facts about a reply of the model before it comes."""

    pipeline: Pipeline  # for the tools that the model was offered
    outputs: Collection[str]  # tools by which it gives a structured answer: LangChain reads these calls itself
    is_heard: bool  # of calls that nobody can read; not for ever: it may write no others

    @classmethod
    def to(cls, request: ModelRequest[Any], pipeline: Pipeline) -> _Reply:
        """Of the reply to this request."""
        asked: Any = request.response_format
        is_auto = isinstance(request.response_format, AutoStrategy)
        asked = ToolStrategy(asked.schema) if is_auto else asked
        outputs = frozenset(each.name for each in getattr(asked, "schema_specs", ()))
        return cls(pipeline, outputs, _count_unread(request.messages) < _MAX_UNREAD)

    def put_right(self, reply: Any) -> Any:
        """The reply, with the names and arguments that the pipeline will run: an approval by a person judges these.

        A call that stands there twice, by one id, is one.

        Args:
            reply: The answer of the model, in one of the forms that LangChain takes. A call that the pipeline refuses
                stays as the model wrote it.
        """
        held = reply  # these classes have a type parameter that no value here knows
        match reply:
            case ExtendedModelResponse():
                return replace(held, model_response=self.put_right(held.model_response))
            case ModelResponse(structured_response=None):
                return replace(held, result=[self.put_right(each) for each in held.result])
            case AIMessage() if reply.tool_calls or reply.invalid_tool_calls:
                calls = [each if each["name"] in self.outputs else self._put_right(each) for each in reply.tool_calls]
                left: list[Any] = []
                for each in reply.invalid_tool_calls:
                    made = self._put_right(_make_call(each))
                    (left if self._leaves(made) else calls).append(each if self._leaves(made) else made)
                _, places = without_twins([Call(each["name"], each["args"], each["id"] or "") for each in calls])
                firsts = dict(zip(reversed(places), reversed(calls), strict=True))
                calls = [firsts[place] for place in sorted(firsts)]
                return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": left})
            case _:
                return reply

    def _put_right(self, asked: Any) -> Any:
        unread = _read_unread(asked["args"], None)
        call = Call(asked["name"], asked["args"] if unread is None else unread, asked["id"] or "")
        valid = foresee(self.pipeline, call)
        if valid is None or (unread is None and valid.tool.name == asked["name"] and not valid.repairs):
            return asked
        return {**asked, "name": valid.tool.name, "args": dict(valid.params)}

    def _leaves(self, made: Any) -> bool:
        """Whether LangChain keeps a call that it could not read, for it is the one to answer it."""
        if made["name"] in self.outputs or not made["id"]:  # without an id no answer can be told from another
            return True
        if _read_unread(made["args"], None) is None:
            return False
        return not self.is_heard or (
            bool(self.outputs) and not isinstance(self.pipeline.resolve(Call(made["name"])), ResolvedCall)
        )


def describe(tool: BaseTool) -> HostTool:
    """Return the description of a tool as LangChain gives it to the model, its effect, and how it reads arguments."""
    function = convert_to_openai_tool(tool)["function"]
    parameters: Any = function.get("parameters")
    if isinstance(tool.args_schema, type) and parameters and _FILLED in parameters.get("properties", ()):
        properties = {name: each for name, each in parameters["properties"].items() if name != _FILLED}
        required = [name for name in parameters.get("required", ()) if name != _FILLED]
        parameters = {**parameters, "properties": properties, "required": required}
    effect = (tool.metadata or {}).get("effect")
    return HostTool(function.get("description", ""), parameters, effect, _find_reader(tool))


@attrs.frozen
class _SingleReader:
    """Reads arguments as a `Tool` without a schema does: it takes one input, under any name."""

    def __call__(self, arguments: Any) -> object:
        (value,) = (load(arguments) or {}).values()
        return value


def _find_reader(tool: BaseTool) -> Reader | None:
    """LangChain reads by a model of pydantic; a JSON Schema of the author's it does not ask."""
    schema: Any = tool.args_schema
    if isinstance(tool, Tool) and schema is None:
        return _SingleReader()
    if not isinstance(schema, type) or not issubclass(schema, BaseModel):
        return None
    shown: Any = tool.tool_call_schema  # without what the graph injects, but also without second names
    model = schema if shown.model_fields.keys() == schema.model_fields.keys() else shown
    return ModelReader(model, (_FILLED,) if _FILLED in model.model_fields else ())


def _make_call(unread: Any) -> Any:
    """Make a call of one that LangChain could not read: it would end the run, and the model would not hear of it."""
    return {
        "type": "tool_call",
        "name": unread["name"] or "",
        "args": {_UNREAD: unread["args"] or ""},
        "id": unread["id"],
    }


def _count_unread(messages: Iterable[Any]) -> int:
    """How many of the last replies are nothing but calls that nobody could read."""
    replies = [each for each in messages if isinstance(each, AIMessage)]
    counted = takewhile(_is_unread, reversed(replies))
    return sum(1 for _ in counted)


def _is_unread(reply: AIMessage) -> bool:
    return bool(reply.tool_calls) and all(_read_unread(each["args"], None) is not None for each in reply.tool_calls)


_exported_id: ContextVar[str] = ContextVar("toolcall_pipeline_exported_id", default="")


class _Exported(BaseTool):
    """Runs a call through the pipeline. A parameter may have any name, ``self`` and ``config`` included."""

    own: str
    approvals: Any
    handle_tool_error: Any = True

    def run(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        token = _exported_id.set(tool_call_id or "")
        try:
            return super().run(tool_input, *args, tool_call_id=tool_call_id, **options)
        finally:
            _exported_id.reset(token)

    async def arun(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **options: Any) -> Any:
        token = _exported_id.set(tool_call_id or "")
        try:
            return await super().arun(tool_input, *args, tool_call_id=tool_call_id, **options)
        finally:
            _exported_id.reset(token)

    def _run(self, /, **arguments: object) -> Any:
        call, config = self._make_call(arguments)
        with below_openinference():
            outcome = self.approvals.run_sync(call, config, _interrupt)
        return _tell(call, outcome, self.approvals.pipeline.wording)

    async def _arun(self, /, **arguments: object) -> Any:
        call, config = self._make_call(arguments)
        with below_openinference():
            outcome = await self.approvals.run(call, config, _interrupt)
        return _tell(call, outcome, self.approvals.pipeline.wording)

    def _make_call(self, arguments: object) -> tuple[Call, Any]:
        config: Any = ensure_config()
        user, thread = _read_config(config)
        return Call(self.own, arguments, _exported_id.get(), principal=user, conversation=thread), config


def export_tools(
    registry: ToolView,
    pipeline: Pipeline,
    *,
    principal: Find | None = None,
    conversation: Find | None = None,
    ask: bool = False,
) -> list[BaseTool]:
    """The tools that may be called now as tools of LangChain, sync and async. A failure is a message of status error.

    An image or a PDF file that a tool returns is a content block. The pipeline gets the id of each call.

    Args:
        registry: The tools.
        pipeline: Runs their calls.
        principal: Finds who asks, in the ``RunnableConfig``. Default None: as in `ToolcallMiddleware`.
        conversation: Finds the conversation there. Default None: the ``thread_id``, if the run has one.
        ask: Whether a call that waits for a person interrupts the graph, which needs a checkpointer. It goes on with
            ``Command(resume={"decision": "approve"})`` or ``"reject"``, and maybe ``message``, ``by`` and
            ``always``. Default False: the model reads that the call waits.

    Raises:
        SetupError: ``ask`` is true, and no stage of the pipeline asks for approval.
    """
    approvals = HostApprovals(pipeline, Signer("export_tools", principal, conversation), ask)
    return [
        _Exported(
            name=each["name"],
            description=each.get("description", own),
            args_schema=each["parameters"],
            own=own,
            approvals=approvals,
        )
        for each, own in list_offered(registry)
    ]


def _interrupt(approval: Approval) -> Decision | None:
    """Interrupt the graph, or read the answer that it goes on with; None: it is no decision on this call."""
    asked = {"approval": approval.id, "tool": approval.tool, "arguments": dict(approval.arguments)}
    given: object = interrupt({**asked, "reason": approval.reason, "expires_at": approval.expires_at})
    answer: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    if answer.get("decision") not in ("approve", "reject"):
        _logger.warning("Tool %.200r waits on: the answer is not of one of the forms %s", approval.tool, _ANSWERS)
        return None
    if answer.get("approval", approval.id) != approval.id:
        return None
    by = str(answer.get("by") or "the user of LangGraph")
    message, always = str(answer.get("message") or ""), answer.get("always") is True
    return Decision(answer["decision"] == "approve", message, by, always)


def _tell(call: Call, outcome: Outcome, wording: Wording | None) -> Any:
    if says_error(outcome):
        raise ToolException(render(outcome, call=call, wording=wording))
    media = list_media(outcome)
    return render(outcome, call=call, wording=wording) if media is None else [_to_block(part) for part in media]


def _to_block(part: str | Image | File) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = "image" if isinstance(part, Image) else "file"
    return {"type": kind, "base64": part.base64, "mime_type": part.media_type}
