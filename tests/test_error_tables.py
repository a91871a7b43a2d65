"""``errors=``: a user's own table of exceptions, of one tool and of a pipeline."""

from __future__ import annotations

from typing import Any, cast

import httpx
import pytest

from support import a_tool
from toolcall_pipeline import (
    Crashed,
    Denied,
    Effect,
    ExecutionFailed,
    Failure,
    InvalidParams,
    NeedsSetup,
    NeedsUserInput,
    OutcomeUnknown,
    Pipeline,
    ResourceNotFound,
    SetupError,
    TimedOut,
    Tool,
    ToolFailed,
    ToolRegistry,
    Transient,
    Unavailable,
    not_begun,
    render,
    tool,
)
from toolcall_pipeline.middlewares import Classify, Retry, standard
from toolcall_pipeline.tools.error_tables import ErrorTable


class PaymentDown(Exception):
    pass


class PaymentSlow(PaymentDown):
    pass


class QuotaExceeded(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__("hunter2")
        self.seconds = seconds


def quick(tools: ToolRegistry, **options: Any) -> Pipeline:
    async def no_wait(_seconds: float) -> None:
        pass

    return standard(tools, **options).replace("retry", Retry(3, sleep=no_wait))


async def coroutine() -> None:
    pass


def always(verdict: Any) -> Any:
    """A function that has one verdict for every exception."""

    def decide(_exc: Exception) -> Any:
        return verdict() if verdict is coroutine else verdict

    return decide


def in_table(where: str, cls: Any, entry: Any) -> Any:
    """The option with a table of one entry."""
    return {where: {cls: entry}}


async def raise_in(
    exc: Exception,
    *,
    mine: Any = None,
    theirs: Any = None,
    effect: Effect = "read",
    in_thread: bool = False,
    **options: Any,
) -> tuple[Any, int]:
    """The error of a tool that raises, and how often its body ran."""
    ran = 0

    async def body(*_context: object, **_: object) -> object:
        nonlocal ran
        ran += 1
        raise exc

    def sync_body(*_context: object, **_: object) -> object:
        nonlocal ran
        ran += 1
        raise exc

    tools = ToolRegistry()
    fn = sync_body if in_thread else body
    tools.register(a_tool(fn=fn, effect=effect, errors=mine, **options))
    return (await quick(tools, errors=theirs).call("probe", {})).failure(), ran


def by_seconds(exc: QuotaExceeded) -> Unavailable:
    return Unavailable("probe", "quota", exc.seconds)


KINDS: dict[str, Any] = {
    "execution": ExecutionFailed,
    "not_found": ResourceNotFound,
    "permission": Denied,
    "configuration": NeedsSetup,
    "needs_input": NeedsUserInput,
    "validation": InvalidParams,
    "unavailable": Unavailable,
    "timeout": TimedOut,
    "transient": Transient,
    "internal": Crashed,
}


@pytest.mark.parametrize("where", ["mine", "theirs"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_entry_is_a_kind(where: Any, kind: str) -> None:
    """A kind gives its error; the exception's text stays private, and a read is repeated if the kind is."""
    error, ran = await raise_in(PaymentSlow("hunter2"), **in_table(where, PaymentDown, kind))
    assert type(cast("object", error)) is KINDS[kind]
    assert ran == (3 if kind in ("timeout", "transient") else 1)
    assert "hunter2" not in render(error)
    assert "hunter2" not in repr(error)


@pytest.mark.parametrize("where", ["mine", "theirs"])
async def test_an_entry_is_a_function(where: Any) -> None:
    """A function of the exception returns the error, a kind, or raises a ToolFailed with a text for the model."""

    def tell(exc: QuotaExceeded) -> Any:
        raise ToolFailed(f"Used up for {exc.seconds:g} seconds", kind="permission")

    assert (await raise_in(QuotaExceeded(7), **in_table(where, QuotaExceeded, by_seconds)))[0] == by_seconds(
        QuotaExceeded(7)
    )
    assert (await raise_in(QuotaExceeded(7), **in_table(where, QuotaExceeded, always("not_found"))))[
        0
    ].kind == "not_found"
    told, _ = await raise_in(QuotaExceeded(7), **in_table(where, QuotaExceeded, tell))
    assert render(told) == "Error: Used up for 7 seconds"


@pytest.mark.parametrize("name", ["httpx.ConnectError", f"{PaymentDown.__module__}.PaymentDown"])
async def test_an_entry_may_be_a_name(name: str) -> None:
    """A class may be named by its package, so that the package need not be imported."""
    exc = httpx.ConnectError("x") if name.startswith("httpx") else PaymentSlow()
    assert (await raise_in(exc, theirs={name: "permission"}))[0].kind == "permission"


PRECEDENCE: dict[str, tuple[Any, Any, Exception, str]] = {
    "the tool's goes first": ({PaymentDown: "permission"}, {PaymentDown: "transient"}, PaymentDown(), "permission"),
    "also with a more distant base": (
        {Exception: "permission"},
        {PaymentDown: "transient"},
        PaymentDown(),
        "permission",
    ),
    "then the pipeline's": ({ValueError: "permission"}, {PaymentDown: "timeout"}, PaymentDown(), "timeout"),
    "then the built-in table": ({ValueError: "permission"}, {KeyError: "timeout"}, PermissionError(), "permission"),
    "it goes before the built-in table": (
        None,
        {httpx.ConnectError: "permission"},
        httpx.ConnectError(""),
        "permission",
    ),
    "the nearest class decides": (
        {Exception: "permission", PaymentDown: "not_found", PaymentSlow: "timeout"},
        None,
        PaymentSlow(),
        "timeout",
    ),
    "None passes it on": ({PaymentDown: always(None)}, {PaymentDown: "timeout"}, PaymentDown(), "timeout"),
    "a ToolFailed says its kind itself": ({Exception: "timeout"}, {Exception: "timeout"}, ToolFailed("x"), "execution"),
    "a group of one": ({PaymentDown: "timeout"}, None, ExceptionGroup("g", [PaymentDown()]), "timeout"),
    "a ToolFailed in a group": ({Exception: "timeout"}, None, ExceptionGroup("g", [ToolFailed("x")]), "execution"),
    "a group of one kind": (
        None,
        {PaymentDown: "timeout"},
        ExceptionGroup("g", [PaymentDown(), PaymentSlow()]),
        "timeout",
    ),
    "a group of two kinds": (
        None,
        {PaymentDown: "timeout"},
        ExceptionGroup("g", [PaymentDown(), KeyError()]),
        "internal",
    ),
}


@pytest.mark.parametrize(("mine", "theirs", "exc", "kind"), PRECEDENCE.values(), ids=PRECEDENCE)
async def test_precedence(mine: Any, theirs: Any, exc: Exception, kind: str) -> None:
    """The tool's table, then the pipeline's, then the built-in one; in a table, the nearest class."""
    assert (await raise_in(exc, mine=mine, theirs=theirs))[0].kind == kind


async def test_reveal_approves_the_text_of_any_kind() -> None:
    """``errors=`` decides the kind, and ``reveal=`` whether the model may see the text."""
    error, _ = await raise_in(PaymentDown("No money today"), mine={PaymentDown: "permission"}, reveal=PaymentDown)
    assert render(error) == "Error: No money today"


def boom(_exc: Exception) -> Any:
    raise RuntimeError("hunter2")


def raise_again(exc: Exception) -> Any:
    raise exc


BUGS: dict[str, Any] = {
    "raises": boom,
    "raises what it was given": raise_again,
    "a number": always(5),
    "a kind that is none": always("weather"),
    "a class": always(Transient),
    "a Failure": always(Failure(Denied("x"))),
    "a coroutine": always(coroutine),
}


@pytest.mark.parametrize("where", ["mine", "theirs"])
@pytest.mark.parametrize("effect", ["read", "mutating"])
@pytest.mark.parametrize("function", BUGS.values(), ids=BUGS)
async def test_a_bug_in_a_function_is_a_crash(where: Any, effect: Effect, function: Any) -> None:
    """A function that fails neither raises nor has the call repeated; its mistake is the private cause."""
    cause = PaymentDown("hunter2")
    error, ran = await raise_in(cause, effect=effect, **in_table(where, PaymentDown, function))
    assert (type(error), ran) == (Crashed, 1)
    assert cause in (error.cause, error.cause.__cause__)
    assert "hunter2" not in render(error)


@pytest.mark.parametrize("effect", ["read", "keyed", "idempotent", "mutating"])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_not_begun_is_said_by_a_tool(effect: Effect, in_thread: bool) -> None:
    """A tool that says that nothing happened is repeated, whatever its effect and executor."""
    errors = {httpx.ConnectError: not_begun}
    options: Any = {"effect": effect, "context": effect == "keyed", "in_thread": in_thread}
    error, ran = await raise_in(httpx.ConnectError(""), mine=errors, **options)
    assert (type(error), error.landed, ran) == (Transient, "no", 3)


async def test_not_begun_of_a_pipeline_is_no_promise() -> None:
    """A pipeline's table knows nothing of a tool's other requests, so a mutating tool is not repeated."""
    error, ran = await raise_in(
        httpx.ConnectError("refused"), theirs={httpx.ConnectError: not_begun}, effect="mutating"
    )
    assert (type(error), ran) == (OutcomeUnknown, 1)


async def test_each_way_to_make_a_tool_takes_it() -> None:
    """``@tool``, ``@tools.tool`` and ``Tool.from_schema`` take the table, and the tools stay callable."""
    tools = ToolRegistry()

    @tool(effect="read", errors={PaymentDown: "permission"})
    async def one() -> None:
        raise PaymentDown

    @tools.tool(effect="read", errors={PaymentDown: "permission"})
    def two() -> None:
        raise PaymentDown

    three = Tool.from_schema(
        name="three", parameters=None, handler=two.fn, effect="read", errors={PaymentDown: "permission"}
    )
    tools.register(one)
    tools.register(three)
    run = standard(tools)
    assert [(await run.call(name, {})).failure().kind for name in ("one", "two", "three")] == ["permission"] * 3
    with pytest.raises(PaymentDown):
        await one()


WRONG: dict[str, tuple[Any, str]] = {
    "no mapping": ([PaymentDown], "must map exception types"),
    "a text": ("transient", "must map exception types"),
    "a key that is no exception": ({int: "transient"}, "<class 'int'>"),
    "an instance": ({PaymentDown(): "transient"}, "PaymentDown()"),
    "cancellation": ({KeyboardInterrupt: "transient"}, "KeyboardInterrupt"),
    "a name without a package": ({"PaymentDown": "transient"}, "'PaymentDown'"),
    "a ToolFailed": ({ToolFailed: "transient"}, "ToolFailed"),
    "an unknown kind": ({PaymentDown: "weather"}, "PaymentDown to a kind"),
    "a kind of the runtime": ({PaymentDown: "outcome_unknown"}, "'outcome_unknown'"),
    "None": ({PaymentDown: None}, "not to None"),
    "an error": ({PaymentDown: Transient()}, "not to Transient"),
    "an error's class": ({PaymentDown: Transient}, "not to <class 'toolcall_pipeline.engine.errors.Transient'>"),
    "an async function": ({PaymentDown: coroutine}, "sync function"),
}


@pytest.mark.parametrize(("errors", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused(errors: Any, text: str) -> None:
    """A table that is not valid is a SetupError that names its owner and the entry."""
    for owner, build in (
        ("probe", lambda: a_tool(errors=errors)),
        ("Classify", lambda: Classify(errors)),
        ("Classify", lambda: standard(ToolRegistry(), errors=errors)),
    ):
        with pytest.raises(SetupError) as raised:
            build()
        assert str(raised.value).startswith(f"{owner}: `errors`")
        assert text in str(raised.value)


def test_an_empty_table_is_none() -> None:
    """An empty table costs nothing."""
    assert ErrorTable.of("probe", {}) is None
    assert a_tool(errors={}).errors is None
