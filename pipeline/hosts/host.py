"""Host: the pipeline around calls whose tools belong to an agent framework, which runs them itself.

The framework names its tools with each call (`Host.offer`), and hands over how it would run one (`Host.run`). The
pipeline resolves, validates, repeats and traces the call, and the framework runs the body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar, cast, get_args

import attrs
from returns.result import Failure

from toolcall_pipeline.middlewares import standard

from ..base.event_loops import Passes, is_failure_of_body
from ..base.options import check_function, check_type, refuse
from ..base.setup_error import SetupError
from ..engine.call import Call, Outcome, ValidCall
from ..engine.compose import Pipeline
from ..engine.errors import ExecutionFailed
from ..executors import Executor
from ..executors.body import begin_body, end_body
from ..privacy import approved, get_logger, scrub
from ..tools import Effect, Tool, ToolRegistry
from .caller_thread import CallerThread
from .framework_reading import HostParameters, Reader
from .signed_calls import Find, Signer

# Runs the tool of a call as the framework would: with the resolved name and the validated params.
Body: TypeAlias = Callable[[ValidCall], Awaitable[object]]

T = TypeVar("T")
_EFFECTS = tuple(each for each in get_args(Effect) if each != "keyed")  # no framework hands a key to its tools
_MAX_SETS = 100  # sets of tools that have a pipeline of their own
_MAX_DESCRIBED = 1_000  # tool objects whose description is remembered
_body: ContextVar[Body] = ContextVar("toolcall_pipeline_body")
_logger = get_logger()


@attrs.frozen
class HostTool:
    """The facts that a framework knows of one of its tools.

    Attributes:
        description: The description that a model sees.
        parameters: A JSON Schema; None: any object.
        effect: Its effect, where the framework's own metadata name one; None: they do not.
        read: Reads arguments as the framework does before it runs the tool, and raises where it refuses them. A call
            that it accepts is never refused. It has to equal the reader of the same tool in a later offer. None: the
            schema alone decides.
        one_request: Whether its body makes one request and no more: one that is turned away has had no effect.
    """

    description: str = ""
    parameters: Mapping[str, Any] | None = None
    effect: str | None = None
    read: Reader | None = None
    one_request: bool = False


class Host:
    """The pipeline around calls that a framework runs itself.

    A tool that says nothing of its effect counts as ``mutating``: what may have taken effect is not run again.

    Args:
        effects: The effects of tools by name, ``read``, ``idempotent`` or ``mutating``. They win over what the
            framework's own metadata say. Default: none.
        passes: Exceptions of the framework's own control flow, such as an interrupt or an approval. They go through
            the pipeline untouched, and no stage reads them as a failure. Default: none.
        principal: Finds who asks, in what the framework hands to its hook; it stands above what the adapter finds.
            Default None: the adapter alone.
        conversation: The same for the conversation of a call.
        answers: The annotation of what the framework's tools answer with, by which a store keeps it. Default None:
            plain values are kept as they are, and others as the text that a model reads.
        build: Makes the pipeline for a registry; called with ``executor=`` and ``options``. Default: `standard`.
        options: Options of ``build``, such as ``timeout=60``.

    Raises:
        SetupError: An effect is none, or an option of ``build`` is out of its range.
    """

    def __init__(
        self,
        effects: Mapping[str, Effect] | None = None,
        *,
        passes: tuple[type[BaseException], ...] = (),
        principal: Find | None = None,
        conversation: Find | None = None,
        answers: Any = None,
        build: Callable[..., Pipeline] = standard,
        **options: Any,
    ) -> None:
        check_type("Host", "effects", effects, Mapping, optional=True)
        self._effects: dict[str, str] = dict(effects or {})
        for name, effect in self._effects.items():
            if effect not in _EFFECTS:
                refuse("Host", f"effects[{name!r}]", f"one of {', '.join(_EFFECTS)}", effect)
        if not isinstance(cast("object", passes), tuple) or not all(map(_is_exception, passes)):
            refuse("Host", "passes", "a tuple of classes of exceptions", passes)
        check_function("Host", "build", build)
        self._passes = passes
        self._signer = Signer("Host", principal, conversation)
        self._build = build
        self._options = options
        self._stand_in = _stand_for(answers)
        self._made: dict[str, list[tuple[HostTool, Tool[..., Any]]]] = {}  # two agents may mean two tools by one name
        self._pipelines: dict[frozenset[int], tuple[Pipeline, list[Tool[..., Any]]]] = {}  # by the ids of these tools
        self._described: dict[int, tuple[object, HostTool]] = {}
        self._first = self._make(())  # so that a wrong option is refused at once

    def offer(self, tools: Mapping[str, HostTool]) -> Pipeline:
        """Return the pipeline over the tools that the model may call now.

        Args:
            tools: By name, with what the framework knows of each. A tool that was offered before costs a comparison.

        Returns:
            The pipeline for exactly these tools; the same one each time that they are offered.
        """
        made = [self._learn(name, offered) for name, offered in tools.items()]
        key = frozenset(map(id, made))
        found = self._pipelines.get(key)
        if found is None:
            if len(self._pipelines) >= _MAX_SETS:  # sets that are made up for each call must not be kept for ever
                self._pipelines.clear()
                self._made.clear()
            # What a conversation remembers does not depend on the tools that the model may call just now.
            found = self._pipelines[key] = (self._make(made).remember_with(self._first), made)
        return found[0]

    def describe(self, tool: T, read: Callable[[T], HostTool]) -> HostTool:
        """Return the facts that ``read`` finds for a tool object. It is called once: to make a schema is slow."""
        found = self._described.get(id(tool))
        if found is None or found[0] is not tool:
            if len(self._described) >= _MAX_DESCRIBED:
                self._described.clear()
            found = self._described[id(tool)] = (tool, read(tool))  # kept with the tool, so that its id stays its own
        return found[1]

    async def run(
        self, pipeline: Pipeline, call: Call, body: Body, context: object = None, *, counts_inside: bool = False
    ) -> Outcome:
        """Run one call through a pipeline that `offer` returned.

        Args:
            pipeline: For the tools that the model may call.
            call: As the model sent it, with the principal and the conversation that the framework knows.
            body: Runs the tool in the framework. It may return a ``Failure``, as a tool may.
            context: For the functions ``principal=`` and ``conversation=``.
            counts_inside: Whether the framework makes a span ``execute_tool`` when ``body`` runs the tool: then the
                span of the call is none.

        Returns:
            Success with what ``body`` returned, or a Failure. If one of these functions raises, nothing runs.

        Raises:
            BaseException: One of ``passes``, as ``body`` raised it.
        """
        token = _body.set(self._let_pass(body))
        try:
            return await self._signer.run(pipeline, call, context, counts_inside=counts_inside)
        except ControlFlow as exc:
            raise exc.raised from exc.raised.__cause__
        finally:
            _body.reset(token)

    def run_sync(
        self, pipeline: Pipeline, call: Call, body: Callable[[ValidCall], object], context: object = None
    ) -> Outcome:
        """As `run`, for a framework without an event loop: ``body`` runs in the caller's thread.

        A time limit of the pipeline is not heard while ``body`` blocks.
        """
        thread = CallerThread()

        async def body_there(call: ValidCall) -> object:
            return await thread.run(body, call)

        async def run() -> Outcome:
            return await self.run(pipeline, call, body_there, context)

        return thread.wait_for(run)

    def refuse_foreign(self, text: object, cause: BaseException | None = None) -> Failure[ExecutionFailed]:
        """A failure that the framework reports with a text of its own, which is scrubbed as foreign text is."""
        return Failure(ExecutionFailed(approved(scrub(str(text))), cause=cause))

    def refuse_authored(self, text: object) -> Failure[ExecutionFailed]:
        """A failure in the words that the tool's author wrote for the model, which reach it as they are."""
        return Failure(ExecutionFailed(approved(str(text))))  # without a cause: the author knows what became of it

    def _let_pass(self, body: Body) -> Body:
        async def guarded(call: ValidCall) -> object:
            try:
                return await body(call)
            except self._passes as exc:
                raise ControlFlow(exc) from None

        return guarded

    def _learn(self, name: str, offered: HostTool) -> Tool[..., Any]:
        known = self._made.setdefault(name, [])
        for before, made in known:
            if before == offered:
                return made
        effect = self._effects.get(name, offered.effect)
        facts: Any = {
            "name": name,
            "handler": self._stand_in,
            "description": offered.description,
            "one_request": offered.one_request,
            "effect": effect if effect in _EFFECTS else "mutating",
            **self._more_facts(name),
        }
        try:
            made = Tool.from_schema(parameters=offered.parameters, **facts)
        except SetupError as exc:
            _logger.warning("the schema of %s is left to its framework: %s", name, exc)
            made = Tool.from_schema(parameters=None, **facts)
        made.parameters = HostParameters.around(made.parameters, offered.read)
        made.compile()
        known.append((offered, made))
        return made

    def _more_facts(self, _name: str) -> dict[str, Any]:
        """Further options of the tool of this name."""
        return {}

    def _make(self, made: Iterable[Tool[..., Any]]) -> Pipeline:
        tools = ToolRegistry()
        for tool in made:
            tools.register(tool)
        return self._build(tools, executor=_InHost(), **self._options)


class ControlFlow(Passes):
    """Carries an exception of the framework through the pipeline.

    An adapter raises it in a body where the class of an exception, as in ``passes``, does not say whether it passes.

    Attributes:
        raised: The exception.
        landed: False, so that the call is no lost one: the framework runs it again, or lets a person decide. "maybe"
            where the tool has failed, and the exception ends the run.
    """

    def __init__(self, raised: BaseException, *, landed: object = False) -> None:
        super().__init__()
        self.raised = raised
        self.landed = landed


class _InHost(Executor):
    """Runs the body that the framework handed over with the call."""

    name: ClassVar[str] = "host"
    announces_body: ClassVar[bool] = True

    async def run(self, call: ValidCall) -> object:
        body = _body.get()
        begin_body(call)
        try:
            answer = await body(call)
        except BaseException as exc:
            if isinstance(exc, ControlFlow) or is_failure_of_body(exc):
                end_body(call)
            raise
        end_body(call)  # not of a body that was cancelled: a thread of the framework may still run it
        return answer


def _is_exception(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)


def _stand_for(answers: Any) -> Callable[..., Any]:
    """Make a function that stands for each tool in the registry. It is never called; a store reads its annotation."""

    async def run_in_host(**_params: object) -> NoReturn:
        raise NotImplementedError

    if answers is not None:
        run_in_host.__annotations__["return"] = answers
    return run_in_host
