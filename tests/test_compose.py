"""Stacks and pipelines: what is refused at set-up, and what a pipeline answers."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, cast

import anyio
import attrs
import pytest
from returns.result import Failure, Success

from support import a_tool
from toolcall_pipeline import (
    Call,
    Crashed,
    Denied,
    Handler,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    ResolvedCall,
    SetupError,
    Stack,
    TimedOut,
    ToolContext,
    ToolError,
    ToolRegistry,
    Transient,
    UnknownTool,
    ValidCall,
    tool,
)
from toolcall_pipeline.engine.compose.stage import Stage
from toolcall_pipeline.middlewares import (
    Available,
    Cache,
    Classify,
    Execute,
    Resolve,
    Retry,
    Timeout,
    Trace,
    Validate,
    standard,
)
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import script

C = TypeVar("C", bound=Call)
P = ParamSpec("P")


async def log(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
    return await call_next(call)


scope: dict[str, Any] = {}
exec("async def untyped(call, call_next): return await call_next(call)", scope)
untyped: Any = scope["untyped"]


def count(call: C) -> C:
    return call


def registry(*tools: Any) -> ToolRegistry:
    made = ToolRegistry()
    for each in tools or (a_tool(),):
        made.register(each)
    return made


TOOLS = registry()
validate: Any = Validate()  # as Any: the checkers' part is tests/typing_api.py, and here the types are ignored
retry: Any = Retry()
execute: Any = Execute()


async def asks(call: Any) -> Any:
    return call


def takes_two(call: Any, call_next: Any) -> Any:
    return call


def takes_three(call: Any, call_next: Any, more: Any) -> Any:
    return call


STRANGE: dict[str, Any] = {
    "number": 3,
    "class": Validate,
    "three": takes_three,
    "two": takes_two,
    "async": asks,
    "stack": Stack(),
    "pipeline": standard(TOOLS),
}
any_count: Any = count
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "validate before resolve": (
        lambda: Stack().check(validate).end(execute),
        "validate needs a ResolvedCall and stands where there is a Call",
    ),
    "retry before validate": (
        lambda: Stack().check(Resolve(TOOLS)).wrap(retry).end(execute),
        "retry needs a ValidCall and stands where there is a ResolvedCall",
    ),
    "no validate": (
        lambda: Stack().check(Resolve(TOOLS)).end(execute),
        "execute needs a ValidCall and stands where there is a ResolvedCall",
    ),
    "log before validate": (lambda: standard(TOOLS).before("validate", log), "log needs a ValidCall"),
    "without resolve": (lambda: standard(TOOLS).without("resolve"), "available needs a ResolvedCall"),
    "without the end": (lambda: standard(TOOLS).without("execute"), "one end, and it stands last"),
    "trace inside": (lambda: standard(TOOLS).without("trace").after("resolve", Trace()), "must stand outermost"),
    "two of one name": (lambda: standard(TOOLS).before("retry", Retry()), "two stages are called 'retry'"),
    "async check": (lambda: Stack().check(STRANGE["async"]), "asks is async, and a check does no I/O"),
    "check as a middleware": (lambda: Stack().wrap(any_count), "a middleware takes (call, call_next)"),
    "middleware as a check": (lambda: Stack().check(STRANGE["two"]), "put it in with wrap"),
    "no stage at all": (lambda: standard(TOOLS).before("retry", STRANGE["number"]), "3 is not a stage"),
    "a class": (lambda: standard(TOOLS).before("retry", STRANGE["class"]), "Validate is a class"),
    "three arguments": (lambda: standard(TOOLS).before("retry", STRANGE["three"]), "is not a stage: a check takes"),
    "a pipeline as a check": (lambda: Stack().check(STRANGE["pipeline"]), "a Pipeline is several stages and not one"),
    "a pipeline among stages": (lambda: standard(TOOLS).before("retry", STRANGE["pipeline"]), "stack.end(pipeline)"),
    "a pipeline in the place of an end": (
        lambda: standard(TOOLS).replace("execute", STRANGE["pipeline"]),
        "stack.end(pipeline)",
    ),
    "a stack among stages": (lambda: standard(TOOLS).after("retry", STRANGE["stack"]), "a Stack is several stages"),
    "a stack as an end": (lambda: Stack().end(STRANGE["stack"]), "stack + stack"),
    "a pipeline added to a stack": (lambda: Stack() + STRANGE["pipeline"], "a Pipeline is several stages"),
    "a check added to a stack": (
        lambda: Stack() + STRANGE["two"],
        "takes_two is not a Stack: put it in with check(), wrap()",
    ),
    "unknown place": (lambda: standard(TOOLS).before("retyr", log), "there is no stage 'retyr'; there are: trace"),
    "no time": (lambda: Timeout(0), "must be a number of seconds > 0"),
    "no attempt": (lambda: Retry(attempts=0), "Retry: `attempts` must be an integer ≥ 1"),
}


@pytest.mark.parametrize(("build", "text"), WRONG.values(), ids=WRONG)
def test_set_up_mistakes_raise_at_once(build: Callable[[], object], text: str) -> None:
    """A mistake at set-up raises at once, also where no type checker ran, and the text says what is wrong."""
    with pytest.raises(SetupError) as raised:
        build()
    assert text in str(raised.value)


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_a_set_up_error_is_a_type_error_and_a_value_error(kind: type[Exception]) -> None:
    """`except TypeError` and `except ValueError` both catch a SetupError."""
    with pytest.raises(kind):
        standard(TOOLS).without("resolve")


HINTS = {
    "ledger": "`ledger` comes with `standard(tools, store=…)`",
    "switchboard": "`switchboard` comes with `standard(tools, store=…)`",
    "timeout": "`timeout` comes with `standard(tools, timeout=…)`",
    "policy": "`policy` comes with the rules of `standard(tools, policy=…)`",
    "approve": "`approve` comes with a rule of `standard(tools, policy=…)` that says `approve`",
    "dry_run": "`dry_run` comes with a rule of `standard(tools, policy=…)` that says `dry_run`",
    "quota_1": "`quota_1` comes with a budget of `standard(tools, policy=…)`",
    "check_result": "`check_result` comes with a tool that says `ensure=` or `output_schema=`",
}


def test_a_stage_that_comes_with_an_option_names_it(tmp_path: Path) -> None:
    """Who names a stage that `standard` adds only for an option reads which one, whatever he does with the stage."""
    policy = tmp_path / "policy.toml"
    rules = "".join(f"[[rules]]\ntool = 'probe'\naction = '{action}'\n" for action in ("approve", "dry_run"))
    policy.write_text(f"{rules}[[budgets]]\ncalls = 9\nwindow = 60\nper = 'tool'\n", "utf-8")
    tools = ToolRegistry()
    tools.register(a_tool(ensure=bool))
    every = standard(tools, timeout=1, store=Memory(), policy=policy).stages
    assert set(every) - set(standard(TOOLS).stages) == set(HINTS)
    for name, hint in HINTS.items():
        for edit in (standard(TOOLS).before, standard(TOOLS).replace):
            with pytest.raises(SetupError, match="there is no stage") as raised:
                edit(name, log)
            assert str(raised.value).endswith(f"execute. {hint}")
    with pytest.raises(SetupError) as raised:
        Stack().check(Resolve(TOOLS)).without("ledger")
    assert str(raised.value) == "there is no stage 'ledger'; there are: resolve"


def test_the_standard_order() -> None:
    """The seven stages stand in the documented order, and a time limit inside of retry."""
    seven = ("trace", "resolve", "available", "validate", "retry", "classify", "execute")
    assert standard(TOOLS).stages == seven
    assert standard(TOOLS, timeout=1).stages == (*seven[:5], "timeout", *seven[5:])


def test_stages_are_placed_by_name() -> None:
    """before, after, replace and without work on a pipeline and on a stack, and return new ones."""
    pipeline = standard(TOOLS)
    stack = Stack().check(Resolve(TOOLS)).check(Available(TOOLS)).check(Validate())
    assert pipeline.before("retry", log).after("retry", untyped).stages[4:7] == ("log", "retry", "untyped")
    assert pipeline.before("retry", log, name="outer").stages[4:6] == ("outer", "retry")
    assert pipeline.replace("execute", script(Success(1))).stages == pipeline.stages
    assert pipeline.without("trace").stages == pipeline.stages[1:]
    edited = stack.before("available", count).without("available").after("validate", log)
    assert edited.end(Execute()).stages == ("resolve", "count", "validate", "log", "execute")
    assert stack.end(Execute()).stages == ("resolve", "available", "validate", "execute")


def test_two_stages_that_repeat_are_refused() -> None:
    """A second repeating stage is refused: the attempts would multiply."""
    with pytest.raises(SetupError, match="outer and retry both repeat"):
        standard(TOOLS).before("retry", Retry(2), name="outer")


def test_a_subclass_keeps_the_rules_of_its_stage() -> None:
    """The order rules of a stage hold for its subclasses and under any name."""

    class Answers(Cache):
        pass

    with pytest.raises(SetupError, match="retry must stand inside of answers"):
        standard(TOOLS).after("retry", Answers(60))


def test_only_stages_that_say_so_contribute_a_registry() -> None:
    """A stage that holds a registry for its own purposes does not make its tools the pipeline's."""

    class Audit:
        def __init__(self, registry: ToolRegistry) -> None:
            self.registry = registry

        async def __call__(self, call: Call, call_next: Handler[Call]) -> Outcome:
            return await call_next(call)

    others = ToolRegistry()
    others.register(a_tool("elsewhere", run_in="nowhere"))
    assert standard(TOOLS).before("retry", Audit(others)).find("elsewhere") is None


def test_a_check_is_not_taken_for_an_observer() -> None:
    """The method that adds a stage decides its form; an attribute `begin` makes no observer of a check."""

    class Opening:
        def begin(self) -> None:
            """Has the name of an observer's method."""

        def __call__(self, call: Call) -> Call:
            return call

    check: Any = Opening()
    with pytest.raises(SetupError, match="takes a call only"):
        Stack().wrap(check)
    with pytest.raises(SetupError, match="not an observer"):
        Stack().observe(cast("Any", log))


async def test_edited_and_built_pipelines_run_what_they_say() -> None:
    """A replaced stage runs in place of the old one."""
    inside = script(Success("played"))
    assert await standard(TOOLS).replace("execute", inside).call("probe") == Success("played")
    assert inside.calls[0].tool.name == "probe"


async def test_an_unannotated_stage_is_accepted_anywhere() -> None:
    """A stage without annotations may stand in any place."""
    for place in standard(TOOLS).stages[1:]:
        assert await standard(TOOLS).before(place, untyped).call("probe") == Success("done")


class Methods:
    """Stages may be methods and partials."""

    async def wrap(self, call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        return await call_next(call)

    def check(self, call: ResolvedCall, limit: int = 3) -> ResolvedCall | Failure[Denied]:
        return call if len(call.tool.name) > limit else Failure(Denied("check"))

    async def async_check(self, call: Call) -> Call:
        return call


async def test_methods_and_partials_are_stages() -> None:
    """A bound method or a partial stands where its annotations say, and is refused elsewhere."""
    methods = Methods()
    pipeline = standard(TOOLS).before("retry", methods.wrap).after("available", methods.check)
    assert await pipeline.call("probe") == Success("done")
    strict = standard(TOOLS).after("resolve", functools.partial(methods.check, limit=9), name="strict")
    assert await strict.call("probe") == Failure(Denied("check"))
    for stage in (methods.wrap, methods.check, functools.partial(methods.check, limit=1)):
        with pytest.raises(SetupError, match="stands where there is a Call"):
            standard(TOOLS).before("resolve", stage)
    for not_a_check in (methods.async_check, functools.partial(methods.async_check)):
        with pytest.raises(SetupError, match="a check does no I/O"):
            standard(TOOLS).before("resolve", not_a_check)


ANY_HANDLER: Any = Handler
ANY_CALLABLE: Any = Callable


def annotated(takes: Any, handler: Any = None) -> Any:
    async def stage(call: Any, call_next: Any) -> Any:
        return await call_next(call)

    stage.__annotations__ = {"call": takes, "call_next": handler or ANY_HANDLER[Any], "return": Outcome}
    return stage


Constrained = TypeVar("Constrained", ResolvedCall, ValidCall)
FINE: list[Any] = [
    annotated(Call, ANY_CALLABLE[..., Awaitable[Outcome]]),
    annotated(Call, ANY_CALLABLE[P, Awaitable[Outcome]]),
    annotated(Call, Annotated[ANY_HANDLER[Call], "why"]),
    annotated(Call, ANY_HANDLER[Call] | None),
    annotated("Call"),
    annotated("NoSuchName"),
    annotated("no expression at all"),
    annotated(Call | ValidCall),
]
LATE: list[Any] = [
    annotated(Annotated[ValidCall, "why"]),
    annotated(ResolvedCall | ValidCall),
    annotated(Constrained),
    annotated("ValidCall"),
]


@pytest.mark.parametrize("beside", [(), (Call,), (Call, "why")], ids=len)
def test_what_a_middleware_hands_on_is_read_from_its_handler(beside: tuple[Any, ...]) -> None:
    """What an annotation carries beside its type says nothing of the phase."""
    handler: Any = ANY_HANDLER[ValidCall]
    if beside:
        handler = Annotated[(handler, *beside)]
    assert Stage.of(annotated(Annotated[Call, ResolvedCall], handler)).phases() == (Call, ValidCall)


@pytest.mark.parametrize("stage", [pytest.param(each, id=str(n)) for n, each in enumerate(FINE)])
async def test_any_annotation_can_be_read(stage: Any) -> None:
    """An annotation of any form is read or ignored; none of them fails at set-up."""
    assert await standard(TOOLS).before("resolve", stage).call("probe") == Success("done")


@pytest.mark.parametrize("stage", [pytest.param(each, id=str(n)) for n, each in enumerate(LATE)])
def test_a_phase_is_found_in_any_annotation(stage: Any) -> None:
    """A union or a constrained type variable needs the earliest of its phases."""
    with pytest.raises(SetupError, match="stands where there is a Call"):
        standard(TOOLS).before("resolve", stage)


def test_what_nobody_gives_is_refused() -> None:
    """A stage with a required keyword argument is refused: no pipeline passes it."""

    async def stage(call: Call, call_next: Handler[Call], *, tenant: str) -> Outcome:
        return await call_next(call)

    unmet: Any = stage
    with pytest.raises(SetupError, match="wants tenant"):
        standard(TOOLS).before("resolve", unmet)


async def test_a_middleware_sees_what_its_phase_promises() -> None:
    """A middleware inside of Validate can rely on tool and params."""
    seen: list[tuple[str, object]] = []

    async def look(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        seen.append((call.tool.name, call.params))
        return await call_next(call)

    await standard(TOOLS).before("retry", look).call("probe", {"a": 1})
    assert seen == [("probe", {"a": 1})]


async def test_a_middleware_may_find_the_tool() -> None:
    """A middleware that hands on a later phase than it takes counts as the stage that makes that phase."""

    async def ask(call: Call, call_next: Handler[ResolvedCall]) -> Outcome:
        return await call_next(call.resolved(TOOLS.tools["probe"]))

    pipeline = Stack().observe(Trace()).wrap(ask).check(Validate()).end(Execute())
    assert await pipeline.call("anything") == Success("done")
    assert (await pipeline.report(Call("anything"))).tool is TOOLS.tools["probe"]


REFUSALS: list[ToolError] = [Denied("limit", "five calls a second"), UnknownTool("x")]


@pytest.mark.parametrize("error", REFUSALS)
async def test_a_stage_refuses_with_a_failure(error: ToolError) -> None:
    """The failure that a check or a middleware returns is the outcome, from any place in the stack."""

    def refuse(call: C) -> C | Failure[ToolError]:
        return Failure(error)

    async def refuse_later(call: C, call_next: Handler[C]) -> Outcome:
        return Failure(error)

    for place in standard(TOOLS).stages[1:]:
        for stage in (refuse, refuse_later):
            assert await standard(TOOLS).before(place, stage).call("probe") == Failure(error)


def raises(call: Any) -> Any:
    raise KeyError("a bug")


async def raises_later(call: Any, call_next: Any) -> Any:
    raise KeyError("a bug")


def nothing(call: Any) -> Any:
    return None


async def nothing_later(call: Any, call_next: Any) -> Any:
    return None


async def a_string(call: Any, call_next: Any) -> Any:
    await call_next(call)
    return "done"


async def a_foreign_failure(call: Any, call_next: Any) -> Any:
    return Failure("no such thing")


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("stage", [raises, raises_later, nothing, nothing_later, a_string, a_foreign_failure])
async def test_a_bug_in_a_stage_is_a_crash_of_the_call(stage: Any, traced: bool) -> None:
    """If a stage raises, or returns something else than an Outcome, its call ends in Crashed."""
    pipeline = standard(TOOLS) if traced else standard(TOOLS).without("trace")
    for place in pipeline.stages[1:] if traced else pipeline.stages:
        outcome = await pipeline.before(place, stage).call("probe")
        assert isinstance(outcome, Failure), place
        assert isinstance(outcome.failure(), Crashed), place
        report = await pipeline.before(place, stage).report(Call("probe"))
        assert isinstance(report.error, Crashed), place


@pytest.mark.parametrize("answer", [None, Success(1), Call("probe")], ids=repr)
async def test_a_resolve_with_a_bug_has_a_report(answer: Any) -> None:
    """If the check that finds the tool returns anything else, outcome and report are a crash."""

    def resolve(call: Call) -> ResolvedCall | Failure[UnknownTool]:
        found: ResolvedCall = answer
        return found

    pipeline = standard(TOOLS).replace("resolve", resolve)
    assert await pipeline.call("probe") == Failure(Crashed())
    assert (await pipeline.report(Call("probe"))).outcome == Failure(Crashed())


LOST: list[ToolError] = [TimedOut(1.0), Transient(), Transient(landed="yes")]


@pytest.mark.parametrize("error", LOST)
async def test_a_lost_side_effect_is_never_told_as_a_passing_failure(error: TimedOut | Transient) -> None:
    """A lost call of a mutating tool that may have landed ends in OutcomeUnknown, with and without Retry."""
    tools = registry(a_tool("send", "mutating", verify_with="outbox"), a_tool("read", "read"), a_tool("outbox"))
    for pipeline in (standard(tools), standard(tools).without("retry")):
        outcome = await pipeline.replace("execute", script(Failure(error))).call("send")
        assert outcome == Failure(OutcomeUnknown(error, "outbox"))
    once = standard(tools, attempts=1).replace("execute", script(Failure(error)))
    assert await once.call("read") == Failure(error)


async def test_a_closed_tool_to_check_with_is_not_named() -> None:
    """A text names only tools that the model may call now, also as the tool to verify with."""
    tools = registry(a_tool("send", "mutating", verify_with="outbox"), a_tool("outbox"))
    tools.disable("outbox")
    outcome = await standard(tools).replace("execute", script(Failure(Transient()))).call("send")
    assert outcome == Failure(OutcomeUnknown(Transient()))


async def pass_on(call: C, call_next: Handler[C]) -> Outcome:
    return await call_next(call)


@pytest.mark.parametrize("without", ["retry", "trace"])
async def test_a_stage_before_resolve_hides_no_lost_side_effect(without: str) -> None:
    """A stack that resolves behind another middleware also ends a lost call in OutcomeUnknown."""
    tools = registry(a_tool("send", "mutating", fn=anyio.sleep_forever))
    pipeline = standard(tools, timeout=0.1).without(without).before("resolve", pass_on)
    expected = Failure(OutcomeUnknown(TimedOut(0.1)))
    assert await pipeline.call("send") == expected
    assert await pipeline.without("timeout").call("send", timeout=0.1) == expected
    report = await pipeline.without("timeout").report(Call("send", timeout=0.1))
    assert report.outcome == expected


async def test_a_call_that_a_middleware_made_keeps_its_time_limit() -> None:
    """If a middleware passes on a call of its own making, a limit around it still knows whether the body began."""

    async def own(call: ValidCall, call_next: Handler[ValidCall]) -> Outcome:
        return await call_next(Call(call.name).resolved(call.tool).validated(call.params))

    async def rename(call: Call, call_next: Handler[Call]) -> Outcome:
        return await call_next(Call(call.name.lower()))

    runs: list[int] = []

    async def send() -> None:
        runs.append(1)
        await anyio.sleep_forever()

    tools = registry(a_tool("send", "mutating", fn=send))
    expected = Failure(OutcomeUnknown(TimedOut(0.1)))
    for pipeline in (standard(tools, timeout=0.1), standard(tools, timeout=0.1).without("trace")):
        assert await pipeline.before("classify", own).call("send") == expected
        assert (await pipeline.before("classify", own).report(Call("send"))).outcome == expected
        assert await pipeline.without("timeout").before("resolve", rename).call("SEND", timeout=0.1) == expected
    assert len(runs) == 6


@attrs.frozen
class Approved(ValidCall):
    approver: str = ""


async def test_a_phase_of_ones_own_keeps_its_fields() -> None:
    """A subclass of a phase keeps its fields, with and without time limits and listeners."""
    seen: list[str] = []

    def approve(call: ValidCall) -> ValidCall:
        return Approved(call.name, tool=call.tool, params=call.params, approver="ann")

    async def look(call: Any, call_next: Any) -> Any:
        seen.append(call.approver)
        return await call_next(call)

    pipeline = standard(TOOLS, timeout=5).after("validate", approve).after("timeout", look)
    await pipeline.call("probe", timeout=5)
    await pipeline.report(Call("probe"))
    assert seen == ["ann", "ann"]


async def test_what_did_not_land_stays_what_it_is() -> None:
    """A failure before the body began stays a timeout or transient, for a mutating tool too."""
    tools = registry(a_tool("send", "mutating"))
    error = Transient(landed="no")
    assert await standard(tools, attempts=1).replace("execute", script(Failure(error))).call("send") == Failure(error)


def typed(tools: ToolRegistry) -> tuple[Any, Any]:
    @tools.tool(effect="read")
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @tools.tool(effect="read", context=True)
    def whose(context: ToolContext, thing: str) -> str:
        """Say whose it is."""
        return f"{thing} of {context.principal or 'nobody'}"

    return add, whose


async def test_run_calls_our_own_tool() -> None:
    """run() takes a tool and the arguments of its function, and returns the outcome."""
    tools = ToolRegistry()
    add, whose = typed(tools)
    pipeline = standard(tools)
    assert await pipeline.run(add, a=1) == Success(2)
    assert await pipeline.run(add, 1, b=4) == Success(5)
    assert await pipeline.run(whose, "hat") == Success("hat of nobody")
    assert await pipeline.run(whose, thing="hat") == Success("hat of nobody")


async def test_run_refuses_an_argument_given_twice() -> None:
    """An argument given by position and by name, or one too many, is a SetupError."""
    tools = ToolRegistry()
    add, _ = typed(tools)
    for args, kwargs in (((1,), {"a": 2}), ((1, 2, 3), {})):
        with pytest.raises(SetupError, match="add: "):
            await standard(tools).run(add, *args, **kwargs)


async def test_run_refuses_a_stranger() -> None:
    """run() refuses a tool that no registry of the pipeline holds under its name."""
    tools = registry(a_tool("add"))

    @tool(effect="read")
    async def add(a: int) -> int:
        return a

    with pytest.raises(SetupError, match="is not the tool of that name"):
        await standard(tools).run(add, a=1)


async def test_call_passes_every_field_on() -> None:
    """The keyword arguments of call() become the fields of the Call."""
    seen: list[Call] = []

    def look(call: C) -> C:
        seen.append(call)
        return call

    deps = object()
    await (
        standard(TOOLS)
        .before("resolve", look)
        .call("probe", "{}", id="c1", principal="p", deps=deps, finish_reason="stop", timeout=9.0)
    )
    assert seen == [Call("probe", "{}", "c1", "p", deps, "stop", 9.0)]


def test_a_pipeline_tells_its_stages() -> None:
    """The repr of a pipeline is its stages in order."""
    pipeline: Pipeline = standard(TOOLS)
    assert repr(pipeline) == "<Pipeline trace > resolve > available > validate > retry > classify > execute>"


async def test_classify_alone_needs_no_validated_call() -> None:
    """A stage may be used with fewer others around it than the standard ones."""
    pipeline = Stack().check(Resolve(TOOLS)).check(Validate()).wrap(Classify()).end(Execute())
    assert await pipeline.call("probe") == Success("done")
