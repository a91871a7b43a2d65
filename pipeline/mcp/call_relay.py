"""CallRelay: the calls of tools that go through a relay. They pass a pipeline, whose tools ask the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import attrs
from opentelemetry.propagate import inject
from returns.result import Failure, Success

from ..engine.call import Call, Outcome, make_uuid
from ..engine.compose import Pipeline
from ..engine.errors import ExecutionFailed, InvalidParams, Problem, ToolError, Transient, Unavailable
from ..messages import Wording
from ..policies.relay_policy import RelayPolicy
from ..privacy import approved, withholds
from ..telemetry import continued
from ..telemetry.attributes import OF_CALL
from ..tools import ToolContext, ToolRegistry
from ..tools.error_tables import without_texts
from .asking_person import ClientQuestions, ask_person, decide, find_approvals, find_question
from .call_answers import read_reply
from .jsonrpc import (
    Message,
    dump,
    find_rounded,
    fold_key,
    is_message,
    key_of,
    make_plain,
    name_request,
    read_object,
    write_answer,
    write_call_id,
)
from .known_tools import KnownTools
from .own_requests import UnusableAnswerError
from .result_blocks import make_error_result
from .server import ServerGoneError
from .server_session import InvalidAnswerError
from .upstream import Upstream

_EXACT = approved("a number of at most 15 digits, or a text")
_MODERN = "io.modelcontextprotocol/"  # begins what each request says of its client, in the versions without a handshake


class _ToldByServer(Exception):  # noqa: N818  # it marks a failure as the server's own
    """The server itself reported this failure, so its answer goes back."""


@attrs.define(eq=False)
class Exchange:
    """One call of a tool, from the client's request to its answer. It is the ``deps`` of the call."""

    rest: Message  # the params beside the name and the arguments
    has_arguments: bool  # be they empty
    answer: Message | None = None  # to the last attempt
    value: Message | None = None  # of a success
    told: _ToldByServer | None = None  # marks a failure that the server reported


class CallRelay:
    """Runs the calls of tools."""

    def __init__(
        self,
        upstream: Upstream,
        policy: RelayPolicy,
        make_pipeline: Callable[[ToolRegistry], Pipeline],
        questions: ClientQuestions,
    ) -> None:
        registry = ToolRegistry()
        self.known = KnownTools(registry, policy, self._call_server)
        self._upstream = upstream
        self._limits = policy.limits
        self._run = self.pipeline = make_pipeline(registry)
        self._approvals, self._questions = find_approvals(self.pipeline), questions
        self._conversation = make_uuid()  # a relay has one client, which uses no id twice
        self._progress: dict[str, ToolContext[Exchange]] = {}  # by the token that the client gave

    @property
    def wording(self) -> Wording | None:
        """The wording of texts for the model."""
        return self._run.wording

    async def answer(self, request: Message) -> bytes:
        """Run the call in a request. Returns the line that answers it."""
        params, asked, given = self._questions.read_answer(read_object(request, "params"))
        meta = read_object(params, "_meta")
        is_modern = _MODERN + "protocolVersion" in meta
        rest = {name: value for name, value in params.items() if fold_key(name) not in ("name", "arguments")}
        exchange = Exchange(rest, has_arguments="arguments" in params)
        arguments = params.get("arguments")
        call = Call(
            make_plain(params.get("name", "")),
            make_plain(arguments),
            id=write_call_id(request["id"]),
            deps=exchange,
            conversation=self._conversation,
            state={OF_CALL: name_request(request["id"])},
            wording=self.wording,
        )
        rounded = find_rounded(arguments)
        if rounded is not None:  # what a rule and a person see would not be what the server gets
            refused = Failure(InvalidParams((Problem(rounded, "number", _EXACT),)))
            return self._write(request["id"], refused, call, exchange, is_modern=is_modern)
        if self._approvals is not None and asked:
            await decide(self._approvals, call, asked, given)
        outcome = await self._run_call(call, meta)
        if self._approvals is not None and self._questions.can_ask(meta, is_modern=is_modern):
            if not is_modern:
                if await ask_person(self._questions.ask, self._approvals, call, outcome):
                    outcome = await self._run_call(call, meta)
            elif (question := await find_question(self._approvals, call, outcome)) and question.approval != asked:
                return dump({"jsonrpc": "2.0", "id": request["id"], "result": self._questions.hold(question)})
        return self._write(request["id"], outcome, call, exchange, is_modern=is_modern)

    async def _run_call(self, call: Call, meta: Message) -> Outcome:
        refusal = await self._learn(call.name, meta)
        if refusal is not None:
            return Failure(refusal)
        if "traceparent" not in meta:
            return await self._run(call)
        with continued({name: value for name, value in meta.items() if isinstance(value, str)}):
            return await self._run(call)

    async def _learn(self, name: object, meta: Message) -> ToolError | None:
        """Learn the server's tools, if they are not known. Returns why that is not possible."""
        about_client = {key: value for key, value in meta.items() if key.startswith(_MODERN)}
        ask = partial(self._ask_for_page, about_client)
        shown = name if isinstance(name, str) else ""
        for _ in range(2):  # a server that ends meanwhile is asked again when it is back
            try:
                with anyio.fail_after(self._limits.list_wait):
                    await self.known.learn(name, ask)
            except ServerGoneError as exc:
                if exc.is_away:
                    break
            except (TimeoutError, InvalidAnswerError, UnusableAnswerError):
                return Unavailable(shown, "unlisted")
            else:
                return None
        return Unavailable(shown, "disconnected")

    async def _ask_for_page(self, about_client: Message, cursor: str | None) -> Message:
        params: Message = {} if cursor is None else {"cursor": cursor}
        if about_client:
            params["_meta"] = about_client
        return read_object(make_plain(await self._upstream.ask("tools/list", params)), "result")

    async def find_changes(self) -> bool:
        """Whether the server has other tools than before it ended; False also if that cannot be known."""
        try:
            with anyio.fail_after(self._limits.list_wait):
                return await self.known.find_changes(partial(self._ask_for_page, {}))
        except (ServerGoneError, TimeoutError, InvalidAnswerError, UnusableAnswerError):
            return False

    async def _call_server(self, context: ToolContext[Exchange], /, **arguments: Any) -> object:
        """The body of each tool: one request to the server, and its answer."""
        exchange = context.deps
        exchange.answer = exchange.value = exchange.told = None
        params: Message = {**exchange.rest, "name": context.tool}
        if arguments or exchange.has_arguments:
            params["arguments"] = arguments
        carrier: dict[str, str] = {}
        inject(carrier)  # the span of this attempt; without one, the context of the request
        meta = read_object(params, "_meta")
        if carrier:
            params["_meta"] = {**meta, **carrier}
        token = key_of(meta["progressToken"]) if "progressToken" in meta else None
        if token is not None:
            self._progress[token] = context
        try:
            answer = await self._upstream.ask("tools/call", params)
        except ServerGoneError as exc:
            if exc.is_away:
                return Failure(Unavailable(context.tool, "disconnected", body_landed="no"))
            return Failure(Transient(exc, landed=exc.landed))
        except UnusableAnswerError as exc:
            return self._tell_unusable(exc)
        finally:
            if token is not None and self._progress.get(token) is context:
                del self._progress[token]
        self._upstream.note_use()
        exchange.answer = read = write_answer(answer, None)
        if read is None:
            return self._tell_unusable(UnusableAnswerError(is_long=False))
        told, plain = _ToldByServer(), make_plain(read)
        failure = read_reply(plain, told)
        if failure is not None:
            exchange.told = told
            return Failure(without_texts(failure, context.tool) if self._is_secretive(context) else failure)
        exchange.value = plain["result"]
        return exchange.value

    def _tell_unusable(self, exc: UnusableAnswerError) -> Failure[ToolError]:
        why = f"is longer than {self._limits.line_bytes:,} bytes" if exc.is_long else "cannot be read"
        text = f"The result {why}, and was thrown away. The tool has run."
        return Failure(ExecutionFailed(approved(text), cause=exc))

    def note_progress(self, notification: Message) -> None:
        """Add a progress notification to the report of its call. It also passes to the client."""
        params = read_object(notification, "params")
        context = self._progress.get(key_of(params.get("progressToken"))) if self._progress else None
        done, total, text = params.get("progress"), params.get("total"), params.get("message")
        if context is not None and isinstance(done, (int, float)):
            whole = total if isinstance(total, (int, float)) else None
            told = text if isinstance(text, str) and not self._is_secretive(context) else ""
            context.progress(done, whole, told)

    def _is_secretive(self, context: ToolContext[Exchange]) -> bool:
        """Whether the texts of the server go to the client alone, and into no record."""
        tool = self.pipeline.find(context.tool)
        return tool is not None and withholds(tool)

    def _write(self, request_id: object, outcome: Outcome, call: Call, exchange: Exchange, *, is_modern: bool) -> bytes:
        """The line of the answer: the server's own where it reported the outcome, with the id of the client."""
        error: ToolError | None = outcome.failure() if isinstance(outcome, Failure) else None
        answer = exchange.answer
        is_own = (
            isinstance(outcome, Success) and outcome.unwrap() is exchange.value
            if error is None
            else exchange.told is not None and getattr(error, "cause", None) is exchange.told
        )
        if answer is not None and is_own:
            message: Message = {**answer, "id": request_id}
        elif error is None:  # a stage of the operator's own has put another value in its place
            result = outcome.unwrap()
            message = {"jsonrpc": "2.0", "id": request_id, "result": result if is_message(result) else {}}
        else:
            result = make_error_result(error, complete=is_modern, call=call, wording=self.wording)
            message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        return dump(message)
