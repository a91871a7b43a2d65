"""builtin: the batch tool, the invalid tool, and when install registers them."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from time import monotonic
from typing import Any

import anyio
import pytest
from returns.result import Failure, Success

from support import Exported, StoppedTime, a_tool
from toolcall_pipeline import (
    Call,
    Effect,
    Handler,
    NotExecuted,
    Pipeline,
    Placement,
    SetupError,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    UnknownTool,
    ValidCall,
)
from toolcall_pipeline.builtin import Batch, Invalid, install
from toolcall_pipeline.messages import render
from toolcall_pipeline.middlewares import Timeout, Trace, standard


def registry(hang: Callable[..., Any] = anyio.sleep_forever) -> ToolRegistry:
    """The tools that the batches below call."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def read_file(path: str) -> str:
        return f"text of {path}"

    @tools.tool(effect="read", context=True)
    async def whoami(context: ToolContext) -> list[object]:
        return [context.call_id, context.principal, context.deps]

    @tools.tool(effect="read")
    async def fail() -> None:
        raise ToolFailed("no such file here")

    tools.register(a_tool("hang", "read", hang))
    return tools


@pytest.fixture
def tools() -> ToolRegistry:
    return registry()


@pytest.fixture
def pipeline(tools: ToolRegistry) -> Pipeline:
    made = standard(tools, attempts=1)
    install(tools, made)
    return made


def entry(tool: str, **args: object) -> dict[str, Any]:
    """An entry of a batch, as the definition describes it."""
    return {"tool": tool, "args": args}


async def batch(pipeline: Pipeline, *calls: object, **fields: Any) -> dict[str, Any]:
    """The value of a batch of these calls."""
    outcome: Any = await pipeline.call("batch", {"calls": list(calls)}, **fields)
    value: dict[str, Any] = outcome.unwrap()
    return value


async def outputs(pipeline: Pipeline, *calls: object, **fields: Any) -> list[str]:
    return [each["output"] for each in (await batch(pipeline, *calls, **fields))["results"]]


# Document 004: the factories of section 3.1, then the wishes of section 5.1.
MATRIX = [
    pytest.param(None, None, "", "", id="new(): not installed"),
    pytest.param({"batch": False}, None, "invalid", "", id="with_defaults(), with_provider(): invalid only"),
    pytest.param({}, None, "batch invalid", "batch", id="with_defaults_arc(), with_provider_arc(): both"),
    pytest.param({"invalid": False}, None, "batch", "batch", id="batch only"),
    pytest.param({"batch": False, "invalid": False}, None, "", "", id="neither"),
    pytest.param({"when": lambda: True}, None, "batch invalid", "batch", id="predicate true"),
    pytest.param({"when": lambda: False}, None, "", "", id="predicate false"),
    pytest.param({"environment": "BUILTIN"}, None, "", "", id="variable unset"),
    pytest.param({"environment": "BUILTIN"}, "", "", "", id="variable empty"),
    pytest.param({"environment": "BUILTIN"}, "0", "", "", id="variable 0"),
    pytest.param({"environment": "BUILTIN"}, " False ", "", "", id="variable false"),
    pytest.param({"environment": "BUILTIN"}, "off", "", "", id="variable off"),
    pytest.param({"environment": "BUILTIN"}, "1", "batch invalid", "batch", id="variable 1"),
    pytest.param({"environment": "BUILTIN", "when": lambda: False}, "1", "", "", id="variable 1, predicate false"),
    pytest.param({"environment": "BUILTIN", "batch": False}, "yes", "invalid", "", id="variable yes, invalid only"),
]


@pytest.mark.parametrize(("options", "value", "present", "visible"), MATRIX)
async def test_the_availability_matrix(
    options: dict[str, Any] | None,
    value: str | None,
    present: str,
    visible: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Installed tools are found by name; `invalid` is in no definition, no list and no suggestion."""
    monkeypatch.delenv("BUILTIN", raising=False)
    if value is not None:
        monkeypatch.setenv("BUILTIN", value)
    tools = ToolRegistry()
    pipeline = standard(tools)
    installed = () if options is None else install(tools, pipeline, **options)
    assert list(installed) == list(tools.tools) == present.split()
    assert [each["name"] for each in tools.definitions()] == tools.callable_names() == visible.split()
    calls: dict[str, dict[str, object]] = {"batch": {"calls": [{"tool": "x"}]}, "invalid": {"requested_tool": "x"}}
    for name, arguments in calls.items():
        outcome = await pipeline.call(name, arguments)
        unknown = type(outcome) is Failure and getattr(outcome.failure(), "requested", None) == name
        assert unknown is (name not in present)
    assert "Did you mean: invalid" not in render(await pipeline.call("invalidd"))


def test_installing_twice(tools: ToolRegistry, pipeline: Pipeline) -> None:
    """Installing twice is refused, with both origins: the names are taken."""
    places = r"toolcall_pipeline\.builtin.*and toolcall_pipeline\.builtin"
    with pytest.raises(SetupError, match=f"two tools are called 'batch': {places}"):
        install(tools, pipeline)


def test_another_registry(pipeline: Pipeline) -> None:
    """A registry that the pipeline does not ask is refused; the registry behind its view is accepted."""
    with pytest.raises(SetupError, match="another registry"):
        install(ToolRegistry(), pipeline)
    tools = registry()
    assert install(tools, standard(tools.view(["fail"]))) == ("batch", "invalid")


@pytest.mark.parametrize("options", [{"most": 0}, {"limit": 0}, {"each": 0}, {"timeout": -1.0}], ids=str)
def test_limits_that_are_out_of_range(options: dict[str, Any]) -> None:
    """A batch in which no call could run is a SetupError."""
    with pytest.raises(SetupError):
        Batch(**options)


def test_what_a_model_is_shown(tools: ToolRegistry, pipeline: Pipeline) -> None:
    """The definition says what an entry looks like, how many there may be, and that batches do not nest."""
    (shown,) = [each for each in tools.definitions() if each["name"] == "batch"]
    calls = shown["parameters"]["properties"]["calls"]
    assert set(calls["items"]["properties"]) == {"tool", "args", "id"}
    assert calls["items"]["required"] == ["tool", "args"]
    assert calls["maxItems"] == 25
    assert "25 calls" in shown["description"]
    assert "batch itself cannot be one of them" in shown["description"]
    assert tools.tools["batch"].effect == "mutating"


async def test_one_result_for_each_call_in_call_order(pipeline: Pipeline) -> None:
    """A result has id, tool, success and the text that the call alone would have; failures stop no other call."""
    value = await batch(
        pipeline,
        {"tool": "read_file", "args": {"path": "a"}},
        {"tool": "fail", "args": {}, "id": "second"},
        {"tool": "read_file", "args": {}},
        {"tool": "read-file", "args": {"path": "b"}},
        {"tool": "read_file", "args": {"path": "b"}},
    )
    unknown = (
        "Error: Tool 'read-file' not found.\nDid you mean: read_file?\n"
        "Available tools: read_file, whoami, fail, hang\nPlease try again with one of the available tools."
    )
    assert value["succeeded"] == 2
    assert value["failed"] == 3
    assert value["results"][:2] == [
        {"id": "1", "tool": "read_file", "success": True, "output": "text of a"},
        {"id": "second", "tool": "fail", "success": False, "output": "Error: no such file here"},
    ]
    assert value["results"][2]["output"].startswith("Error: Missing required parameter: path")
    assert value["results"][3] == {"id": "4", "tool": "read-file", "success": False, "output": unknown}
    assert value["results"][4] == {"id": "5", "tool": "read_file", "success": True, "output": "text of b"}


PATH = {"path": "a"}


@pytest.mark.parametrize(
    ("sent", "output"),
    [
        ({"tool": "read_file", "args": PATH}, "text of a"),
        ({"tool_name": "read_file", "arguments": PATH}, "text of a"),
        ({"name": "read_file", "parameters": PATH}, "text of a"),
        ({"tool": "read_file", "args": json.dumps(PATH)}, "text of a"),
        ({"tool": "functions.read_file", "args": PATH, "id": 7}, "text of a"),
        ({"tool": "read_file", "args": '{"path": '}, "Error: The arguments are not a JSON object: they end "),
        ({"tool": "read_file", "args": '{"path" "a"}'}, "Error: The arguments are not a JSON object: "),
        ({"tool": "read_file", "args": [1]}, "Error: The arguments are not a JSON object: "),
        ({"tool": "read_file"}, "Error: Missing required parameter: path"),
        ({"args": PATH}, "Error: Missing required parameter: calls[1].tool"),
        ({"tool": None, "args": PATH}, "Error: Missing required parameter: calls[1].tool"),
        ("read_file", "Error: Invalid parameter value for calls[1]: must be an object with tool and args"),
        (None, "Error: Invalid parameter value for calls[1]: must be an object with tool and args"),
    ],
    ids=str,
)
async def test_an_entry_as_models_write_it(pipeline: Pipeline, sent: object, output: str) -> None:
    """Each entry counts by itself: one that is no call has an error of its own, and the others run."""
    fine = entry("read_file", path="b")
    first, text, last = await outputs(pipeline, fine, sent, fine)
    assert text.startswith(output)
    assert first == last == "text of b"


async def test_calls_as_json_text(pipeline: Pipeline) -> None:
    """Calls that come as JSON text are read, and arguments named like the handler's own parameters do no harm."""
    calls = json.dumps([{"tool": "read_file", "args": PATH}])
    outcome: Any = await pipeline.call("batch", {"calls": calls, "context": 1, "self": 2})
    assert outcome.unwrap()["results"][0]["output"] == "text of a"


@pytest.mark.parametrize(("number", "kind"), [(0, "validation"), (3, None), (4, "validation")])
async def test_the_limit_on_size(number: int, kind: str | None) -> None:
    """Without calls, or with more than `most`, nothing runs."""
    tools = registry()
    pipeline = standard(tools)
    install(tools, pipeline, batch=Batch(most=3))
    calls = [{"tool": "read_file", "args": PATH}] * number
    outcome = await pipeline.call("batch", {"calls": calls})
    assert (outcome.failure().kind if type(outcome) is Failure else None) == kind


async def test_the_limit_on_concurrency() -> None:
    """At most `limit` calls of a batch run at a time."""
    running = most = 0

    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1

    tools = ToolRegistry()
    tools.register(a_tool("count", "read", count))
    pipeline = standard(tools)
    install(tools, pipeline, batch=Batch(limit=2))
    await batch(pipeline, *[entry("count")] * 6)
    assert most == 2


HANGS, FINE = entry("hang"), entry("read_file", path="a")
NO_TIME = "Error: Not executed: the batch's time was up."


@pytest.mark.parametrize(
    ("options", "last"),
    [({"each": 5}, "text of a"), ({"timeout": 5}, NO_TIME)],
    ids=["of one call", "of the whole"],
)
async def test_the_limits_on_time(options: dict[str, Any], last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that hangs is timed out, and the results of the others are kept."""
    tools = registry(StoppedTime(monkeypatch).hang)
    pipeline = standard(tools, attempts=1)
    install(tools, pipeline, batch=Batch(limit=1, **options))
    first, second, third = await outputs(pipeline, FINE, HANGS, FINE)
    assert first == "text of a"
    assert second.startswith("Error: The tool did not finish within")
    assert third == last


@pytest.mark.parametrize(
    ("own", "stage", "call", "left"),
    [(None, None, None, None), (None, 100, None, 95), (None, None, 100, 95), (90, 100, None, 90), (99, 100, 200, 95)],
)
async def test_a_time_limit_around_the_batch_loses_no_result(
    own: float | None, stage: float | None, call: float | None, left: float | None
) -> None:
    """The calls have 95 % of the time that the batch has, so what is done by then is reported."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def how_long(context: ToolContext) -> float | None:
        return None if context.deadline is None else round(context.deadline - monotonic())

    pipeline = standard(tools).after("retry", Timeout(None, tools={"batch": stage}))
    install(tools, pipeline, batch=Batch(timeout=own))
    assert (
        json.loads((await outputs(pipeline, entry("how_long"), timeout=call))[0].replace("(no output)", "null")) == left
    )


async def test_cancellation_from_outside_passes(pipeline: Pipeline) -> None:
    """Cancelling the call of a batch cancels the calls in it, and is not a failure."""
    ended = False
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batch, pipeline, HANGS)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
        ended = True
    assert scope.cancelled_caught
    assert not ended


@pytest.mark.parametrize("name", ["batch", "functions.batch", "`batch`"])
async def test_a_batch_in_a_batch_is_refused(pipeline: Pipeline, name: str) -> None:
    """A batch in a batch is refused, however its name is written; the other calls run."""
    assert await outputs(pipeline, entry(name, calls=[FINE]), FINE) == [
        "Error: Not executed: cannot call batch from within batch.",
        "text of a",
    ]


async def test_a_batch_by_way_of_another_tool_is_refused_too() -> None:
    """A batch called by a tool in a batch is refused; a batch after a batch is not."""
    tools = registry()
    pipeline = standard(tools)
    install(tools, pipeline)

    @tools.tool
    async def roundabout() -> object:
        return await pipeline.call("batch", {"calls": [FINE]})

    refused = render(Failure(NotExecuted("cannot call batch from within batch")))
    assert await outputs(pipeline, entry("roundabout")) == [refused]
    assert await outputs(pipeline, FINE) == ["text of a"]
    assert type(await pipeline.call("roundabout")) is Success


async def test_principal_deps_and_ids_go_along(pipeline: Pipeline) -> None:
    """Calls in a batch have its principal and deps, and ids that no other batch has."""
    named = entry("whoami") | {"id": "x"}
    assert await outputs(pipeline, named, id="call_1", principal="tenant", deps=5) == ['["call_1:x", "tenant", 5]']
    assert await outputs(pipeline, entry("whoami")) == ['["1", "", null]']


async def test_calls_in_a_batch_pass_the_same_pipeline() -> None:
    """Calls in a batch are checked, traced under its attempt, and retried by themselves."""
    tools, exported = ToolRegistry(), Exported()
    answers: list[Any] = [Failure(Transient(landed="no")), Success("at last")]
    tools.register(a_tool("flaky", "read", lambda: answers.pop(0), run_in="loop"))
    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider, stages=False))
    install(tools, pipeline)
    tools.register(a_tool("closed"))
    tools.disable("closed")
    texts = await outputs(pipeline, entry("flaky"), entry("closed"))
    assert texts == ["at last", "This tool is not available"]
    assert exported.tree.splitlines() == [
        "execute_tool batch",
        "  attempt batch",
        "    execute_tool flaky",
        "      attempt flaky ERROR error.type=transient",
        "      attempt flaky",
        "    execute_tool closed ERROR error.type=unavailable",
    ]


async def test_changes_of_one_resource_keep_their_order() -> None:
    """Changes of one resource happen in the order in which the model lists them."""
    tools, written = ToolRegistry(), list[str]()

    @tools.tool(resource="file")
    async def write(text: str) -> None:
        if text == "a":
            await anyio.wait_all_tasks_blocked()
        written.append(text)

    pipeline = standard(tools)
    install(tools, pipeline)
    await batch(pipeline, *(entry("write", text=text) for text in "abc"))
    assert written == ["a", "b", "c"]


async def test_long_results_leave_room_for_each_other() -> None:
    """A result that is too long for its share is cut by itself, so no call is missing from the text."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def long() -> str:
        return "x" * 90_000

    pipeline = standard(tools)
    install(tools, pipeline)
    value = json.loads(render(await pipeline.call("batch", {"calls": [entry("long")] * 4})))
    assert [each["id"] for each in value["results"]] == ["1", "2", "3", "4"]
    assert all("characters left out" in each["output"] for each in value["results"])


BOTH = pytest.mark.parametrize(
    ("tool", "arguments"),
    [(Batch, {"calls": [FINE]}), (Invalid, {"requested_tool": "x"})],
    ids=["batch", "invalid"],
)


@BOTH
async def test_a_pipeline_that_is_not_attached_yet(tool: type[Batch | Invalid], arguments: dict[str, Any]) -> None:
    """Until a pipeline is attached the tool says that it has none, in the words of document 004."""
    tools = registry()
    one = tool()
    tools.register(one.tool())
    pipeline = standard(tools)
    assert render(await pipeline.call(one.name, arguments)) == "Error: Registry not initialized"
    one.attach(pipeline)
    assert "Registry" not in render(await pipeline.call(one.name, arguments))


@BOTH
async def test_a_pipeline_that_is_gone(tool: type[Batch | Invalid], arguments: dict[str, Any]) -> None:
    """The tool does not keep its pipeline alive, and says so when that is gone."""
    tools = registry()
    made: Tool[..., Any] = tool(standard(tools)).tool()
    gc.collect()
    tools.register(made)
    assert render(await standard(tools).call(made.name, arguments)) == "Error: Registry no longer available"


def narrow() -> tuple[ToolRegistry, Pipeline, list[str]]:
    """Tools of which a view shows two, and the names of those that ran; the whole has a pipeline, too."""
    tools, ran = ToolRegistry(), list[str]()
    effects: dict[str, Effect] = {"safe": "read", "danger": "mutating", "dangerous_read": "read"}
    for name, effect in effects.items():

        async def body(name: str = name) -> str:
            ran.append(name)
            return name

        tools.register(a_tool(name, effect, body))
    whole = standard(tools)
    install(tools, whole)

    @tools.tool(context=True)
    async def forward(context: ToolContext, name: str) -> object:
        assert context.caller is not None
        return await context.caller(Call(name))

    return tools, whole, ran


DANGER = ["danger", "functions.danger", "`danger`", "dangerous_read"]


@pytest.mark.parametrize("name", DANGER)
@pytest.mark.parametrize("observed", [False, True], ids=["plain", "recorded"])
async def test_a_batch_does_not_leave_its_view(name: str, *, observed: bool) -> None:
    """A batch that is called in a view reaches what the view shows, and no more."""
    tools, whole, ran = narrow()
    view = standard(tools.view(["safe", "batch"]))
    call = Call("batch", {"calls": [entry(name), entry("safe")]})
    outcome: Any = (await view.report(call)).outcome if observed else await view(call)
    assert [each["output"] for each in outcome.unwrap()["results"]] == ["This tool is not available", "safe"]
    assert ran == ["safe"]
    assert (await outputs(whole, entry(name)))[0] == ran[-1]


@pytest.mark.parametrize("name", DANGER)
async def test_a_tool_that_calls_does_not_leave_its_view(name: str) -> None:
    """A tool that calls through its caller, also in a batch, reaches what the view shows."""
    tools, _, ran = narrow()
    view = standard(tools.view(["forward", "batch"]))
    assert (await view.call("forward", {"name": name})).failure().kind == "unavailable"
    assert await outputs(view, entry("forward", name=name)) == ["This tool is not available"]
    assert ran == []


async def test_a_view_of_a_pipeline_in_a_pipeline() -> None:
    """Of two pipelines, one as the end of the other, a batch calls through the outer one."""
    tools, whole, ran = narrow()

    class End:
        placement = Placement(announces_body=True)  # the inner pipeline does

        async def __call__(self, call: ValidCall) -> Any:
            return await whole(call)

    view = standard(tools.view(["safe", "batch"])).replace("execute", End())
    assert await outputs(view, entry("danger"), entry("safe")) == ["This tool is not available", "safe"]
    assert ran == ["safe"]


async def test_the_stages_of_the_caller_hold_for_a_batch() -> None:
    """A stage that only the calling pipeline has sees each call of the batch."""
    _, whole, ran = narrow()
    seen: list[str] = []

    async def approve(call: ValidCall, call_next: Handler[ValidCall]) -> Any:
        seen.append(call.tool.name)
        return await call_next(call) if call.tool.name != "danger" else Failure(NotExecuted("not approved"))

    strict = whole.before("execute", approve)
    assert await outputs(strict, entry("danger"), entry("safe")) == ["Error: Not executed: not approved.", "safe"]
    assert (seen, ran) == (["batch", "danger", "safe"], ["safe"])


async def test_a_batch_by_hand_has_no_caller() -> None:
    """Where nobody knows which pipeline called, nothing runs: it might leave a view."""
    tools, whole, ran = narrow()
    one = Batch(whole)
    outcome: Any = await one.run(ToolContext("1"), calls=[entry("danger")])
    assert render(outcome) == "Error: Registry not initialized"

    async def end(call: ValidCall) -> Any:
        return Success(await call.tool.fn(ToolContext(call.id), **call.params))

    view = standard(tools.view(["safe", "batch"])).replace("execute", end)
    await view.call("batch", {"calls": [entry("danger")]})
    assert ran == []


@pytest.mark.parametrize("requested", ["dangr", "danger_x", "zzz", "dangerous"])
async def test_invalid_names_no_tool_outside_of_the_view(requested: str) -> None:
    """Called in a view, `invalid` suggests and lists what the view shows."""
    tools, whole, _ = narrow()
    outcome = await standard(tools.view(["safe", "invalid"])).call("invalid", {"requested_tool": requested})
    assert outcome == Failure(UnknownTool(requested, (), ("safe",)))
    assert "danger" in str(await whole.call("invalid", {"requested_tool": requested}))


UNKNOWN = "Unknown tool: {}. Error: there is no such tool"


@pytest.mark.parametrize(
    ("requested", "text"),
    [
        ("read_fil", UNKNOWN + ". Did you mean: read_file?"),
        ("red_file", UNKNOWN + ". Did you mean: read_file?"),
        ("zzz", UNKNOWN + ". Available tools: read_file, whoami, fail, hang, batch"),
        ("invali", UNKNOWN + ". Available tools: read_file, whoami, fail, hang, batch"),
    ],
)
async def test_what_invalid_says(pipeline: Pipeline, requested: str, text: str) -> None:
    """It gives the pipeline's own answer to an unknown name, in document 004's words with that profile."""
    outcome = await pipeline.call("invalid", {"requested_tool": requested, "args": {"secret": 1}})
    assert outcome == await pipeline.call(requested)
    assert render(outcome, profile="invalid_tool") == text.format(requested)


@pytest.mark.parametrize("requested", ["read_file", "invalid", "hang"])
async def test_invalid_for_a_tool_that_exists(tools: ToolRegistry, pipeline: Pipeline, requested: str) -> None:
    """For a tool that exists it says so, whether that is open, closed or hidden."""
    tools.disable("hang")
    text = render(await pipeline.call("invalid", {"requested_tool": requested}))
    assert text == "Error: There is a tool of that name. Call it by its name, and not through this one."


async def test_invalid_in_an_empty_registry() -> None:
    """With no tool to suggest it says that there is none."""
    tools = ToolRegistry()
    pipeline = standard(tools)
    install(tools, pipeline, batch=False)
    outcome = await pipeline.call("invalid", {"requested_tool": "read"})
    assert render(outcome, profile="invalid_tool") == UNKNOWN.format("read") + ", and no tools are available."
    assert render(outcome) == "Error: Tool 'read' not found.\nNo tools are available."


async def test_an_unknown_tool_in_a_batch_in_the_words_of_document_004() -> None:
    """A batch words failures in its profile, and does not suggest itself."""
    tools = ToolRegistry()
    pipeline = standard(tools)
    install(tools, pipeline, batch=Batch(profile="invalid_tool"))
    alone = UNKNOWN + ", and none has a similar name."
    assert await outputs(pipeline, entry("read"), entry("batchh")) == [alone.format("read"), alone.format("batchh")]


async def test_invalid_without_a_check_that_finds_tools() -> None:
    """For a pipeline without a check that finds tools there is nothing to suggest."""

    async def answer(call: Call) -> Success[str]:
        return Success(call.name)

    from toolcall_pipeline import Stack

    tools, mine = ToolRegistry(), Stack().end(answer)
    tools.register(Invalid(mine).tool())
    outcome = await standard(tools).call("invalid", {"requested_tool": "x"})
    assert render(outcome, profile="invalid_tool") == UNKNOWN.format("x") + ", and no tools are available."
