"""One `Wording`, given once, words every text for the model: of adapters, servers, turns, batches, traces, commands."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner
from returns.result import Failure, Success

from cli_desk import open_desk
from support import Exported
from toolcall_pipeline import (
    Call,
    ExecutionFailed,
    Outcome,
    Pipeline,
    ResolvedCall,
    SetupError,
    Stack,
    ToolContext,
    ToolRegistry,
    Wording,
    gather,
    render,
)
from toolcall_pipeline.adapters import anthropic, bedrock, gemini, mistral, ollama, openai
from toolcall_pipeline.builtin import install
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.hosts.host import Host, HostTool
from toolcall_pipeline.mcp.policy_pipeline import make_pipeline
from toolcall_pipeline.mcp.result_blocks import make_error_result, make_result
from toolcall_pipeline.messages import Conversation, Profile
from toolcall_pipeline.middlewares import Execute, Resolve, Trace, Validate, standard
from toolcall_pipeline.policies.policy_file import read_policy
from toolcall_pipeline.policies.relay_policy import RelayPolicy
from toolcall_pipeline.telemetry import Events

MINE = Wording(Profile("mine", {"validation": "MINE {tool}", "unknown_tool": "MINE, try {suggestions}"}))
WRONG: Any = {"times": "many"}
TOLD = "MINE repeat"


def registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def repeat(times: int) -> str:
        return "x" * times

    @tools.tool(effect="read", context=True)
    async def nest(context: ToolContext) -> str:
        assert context.caller is not None
        call = Call("repeat", WRONG)
        return render(await context.caller(call), call=call)

    return tools


def worded() -> Pipeline:
    return standard(registry(), wording=MINE)


def answer_in_responses(call: Call, outcome: Outcome, text: str | None = None, wording: Wording | None = None) -> Any:
    return openai.message(call, outcome, api="responses", text=text, wording=wording)


def answer_many(call: Call, outcome: Outcome, text: str | None = None, wording: Wording | None = None) -> Any:
    if text is None and wording is None:
        return anthropic.messages([(call, outcome)])
    return anthropic.message(call, outcome, text=text, wording=wording)


MESSAGES: dict[str, Callable[..., Any]] = {
    "chat": openai.message,
    "responses": answer_in_responses,
    "anthropic": anthropic.message,
    "anthropic, many": answer_many,
    "bedrock": bedrock.message,
    "gemini": gemini.message,
    "mistral": mistral.message,
    "ollama": ollama.message,
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
async def test_the_messages_of_an_adapter(message: Callable[..., Any]) -> None:
    """They find the wording in the error; an explicit one wins, and so does an explicit text."""
    call = Call("repeat", WRONG, id="call_1")
    outcome = await worded()(call)
    assert TOLD in json.dumps(message(call, outcome))
    assert "must be an integer" in json.dumps(message(call, outcome, wording=Wording()))
    assert TOLD not in json.dumps(message(call, outcome, text="other"))
    await standard(registry())(call)
    assert TOLD in json.dumps(message(call, outcome))
    plain = await standard(registry())(call)
    assert "must be an integer" in json.dumps(message(call, plain))
    assert TOLD in json.dumps(message(call.worded(MINE), plain))


REPLIES: dict[str, tuple[Any, Any]] = {
    "chat": (openai, {"tool_calls": [{"id": "c1", "function": {"name": "repeat", "arguments": '{"times": 2}'}}]}),
    "anthropic": (anthropic, {"content": [{"type": "tool_use", "id": "c1", "name": "repeat", "input": {"times": 2}}]}),
    "bedrock": (
        bedrock,
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "repeat", "input": {"times": 2}}}]},
    ),
    "gemini": (gemini, {"parts": [{"functionCall": {"id": "c1", "name": "repeat", "args": {"times": 2}}}]}),
    "mistral": (mistral, {"tool_calls": [{"id": "c1", "function": {"name": "repeat", "arguments": '{"times": 2}'}}]}),
    "ollama": (ollama, {"message": {"tool_calls": [{"function": {"name": "repeat", "arguments": {"times": 2}}}]}}),
}


@pytest.mark.parametrize("provider", REPLIES)
async def test_the_calls_of_a_reply_know_the_wording_of_their_pipeline(provider: str) -> None:
    """`calls(reply, pipeline)`: so the text of a value is worded, too; a registry gives names alone."""
    adapter, reply = REPLIES[provider]
    pipeline = standard(registry(), wording=Wording("structured"))
    (call,) = adapter.calls(reply, pipeline)
    assert call.wording == pipeline.wording
    assert '\\"ok\\"' in json.dumps(adapter.message(call, await pipeline(call)))
    assert adapter.send_back(adapter.calls(reply, pipeline), pipeline)
    (call,) = adapter.calls(reply, pipeline.registries[0])
    assert call.wording is None


async def test_nothing_is_written_into_a_call() -> None:
    """A call that was handed in stays as it was, whatever runs it; and so does an error that a tool shares."""
    tools, shared = registry(), Failure(ExecutionFailed("no"))

    @tools.tool(effect="read")
    async def refuse() -> Outcome:
        return shared

    pipeline = standard(tools, wording=MINE)
    call, bad = Call("repeat", {"times": 1}), Call("refuse")
    for run in (pipeline, pipeline.report, pipeline.with_(principal="ada")):
        await run(call)
        await run(bad)
    await gather(pipeline, [call, bad], principal="ada")
    await run_turn(send_nothing, [call, bad], pipeline, verbosity="full")
    assert (call.wording, bad.wording, shared.failure().wording) == (None, None, None)
    outcome = await pipeline(bad)
    assert outcome == shared
    assert outcome.failure().wording is MINE
    assert pickle.loads(pickle.dumps(outcome)).failure().wording is None


async def test_a_value_is_worded_too() -> None:
    """A profile that makes JSON of a failure makes it of a value, if the call knows its pipeline."""
    pipeline = standard(registry(), wording=Wording("structured"))
    call = Call("repeat", {"times": 2}, id="call_1", wording=pipeline.wording)
    outcome = await pipeline(call)
    assert pipeline.render(outcome) == render(outcome, profile="structured")
    assert json.loads(openai.message(call, outcome)["content"]) == json.loads(render(outcome, profile="structured"))
    assert make_result(outcome, call=call)["content"][0]["text"] == render(outcome, profile="structured")


async def test_what_each_option_of_a_text_overrides() -> None:
    """An option of `render` wins over ``wording=``, which wins over the call's."""
    call = Call("repat", id="call_1")
    outcome = await standard(registry(), wording=MINE)(call)
    assert render(outcome, call=call) == "MINE, try repeat"
    assert render(outcome) == "MINE, try repeat"
    assert render(outcome, call=call, wording=Wording("llmproc")) == render(outcome, profile="llmproc")
    assert render(outcome, wording=MINE, templates={"unknown_tool": "OTHER"}) == "OTHER"
    plain = await standard(registry())(call)
    assert render(plain, wording=Wording(listed=0)) == render(plain, listed=0)
    assert render(plain, wording=Wording(verbosity="full")) == render(plain, verbosity="full")
    assert render(plain, call=call.worded(MINE)) == "MINE, try repeat"
    assert Conversation().render(call, outcome) == "MINE, try repeat"
    assert Conversation("default").render(call, outcome) == render(plain)


async def send_nothing(*_: Any) -> Sequence[Call]:
    return []


def unchanged(call: Call) -> Call:
    return call


@attrs.frozen
class Mine(Call):
    """A call of a class of the user's own, which is frozen."""


async def test_every_way_to_run_a_call() -> None:
    """The phases of a call know the wording, and so does its report."""
    seen: list[Any] = []

    def note(call: ResolvedCall) -> ResolvedCall:
        seen.append(call.wording)
        return call

    pipeline = worded().before("validate", note)
    calls = [Call("repeat", {"times": 1}), Mine("repeat", {"times": 1})]
    for call in calls:
        await pipeline(call)
        assert (await pipeline.report(call)).call.wording == MINE
        await pipeline.with_(principal="ada")(call)
    await gather(pipeline, [Call("repeat", {"times": 1}), Call("repeat", {"times": 1}, timeout=9)], timeout=30)
    assert len(seen) == 8
    assert set(seen) == {MINE}
    assert pipeline.wording == pipeline.with_(deps=1).without("retry").wording == MINE
    assert Stack().check(unchanged).end(pipeline).wording == MINE


async def test_a_stack_of_ones_own() -> None:
    """`Stack.end` takes a wording as well; `worded` changes it, and keeps who asks."""
    pipeline = Stack().check(Resolve(registry())).check(Validate()).end(Execute(), wording=MINE)
    call = Call("repeat", WRONG)
    outcome = await pipeline(call)
    assert render(outcome, call=call) == TOLD
    outcome = await pipeline.with_(principal="ada").worded(Wording("llmproc"))(call)
    assert render(outcome) == render(outcome, profile="llmproc")


async def test_a_batch_and_the_calls_of_a_tool() -> None:
    """They are worded by the pipeline that called the tool; a profile of the batch's own wins."""
    tools = registry()
    pipeline = standard(tools, wording=MINE)
    install(tools, pipeline)
    found: Any = (await pipeline.call("batch", {"calls": [{"tool": "repeat", "args": WRONG}]})).unwrap()
    assert found["results"][0]["output"] == TOLD
    assert await pipeline.call("nest") == Success(TOLD)


async def test_a_turn() -> None:
    """The model reads the pipeline's words, or those of the turn; so do later texts of its outcomes."""
    call = Call("repeat", WRONG, id="1")
    turn = await run_turn(send_nothing, [call], worded(), principal="ada")
    assert (turn.answered[0].text, turn.records[0].error) == (TOLD, TOLD)
    assert TOLD in str(openai.message(turn.answered[0].call, turn.answered[0].outcome))
    turn = await run_turn(send_nothing, [call], worded(), profile="default")
    assert "must be an integer" in turn.answered[0].text
    assert "must be an integer" in str(openai.message(call, turn.answered[0].outcome))
    with pytest.raises(SetupError, match="unknown verbosity 'loud'"):
        await run_turn(send_nothing, [call], worded(), verbosity="loud")


async def test_the_results_of_a_server() -> None:
    """A failure and a value, as a client of MCP gets them."""
    call = Call("repeat", WRONG)
    outcome = await worded()(call)
    assert isinstance(outcome, Failure)
    assert make_result(outcome, call=call)["content"][0]["text"] == TOLD
    error: Any = outcome.failure()
    assert make_error_result(error, complete=True, wording=MINE)["content"][0]["text"] == "MINE this tool"


async def test_a_host() -> None:
    """A host takes a wording among its options, and the calls that it runs know it."""
    host = Host({"repeat": "read"}, wording=MINE)
    schema = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}

    async def body(_: object) -> object:
        raise AssertionError

    call = Call("repeat", WRONG)
    outcome = await host.run(host.offer({"repeat": HostTool("", schema)}), call, body)
    assert render(outcome, call=call) == TOLD


async def test_traces_and_events() -> None:
    """What they say that the model read is what it read."""
    tools = registry()
    exported, events = Exported(), Events()
    trace = Trace(tracer_provider=exported.provider, content=True, sinks=[events])
    with events:
        await standard(tools, wording=MINE).replace("trace", trace).call("repeat", WRONG)
    (span,) = [each for each in exported.spans if each.name == "execute_tool repeat"]
    assert TOLD in str(span.attributes)
    assert TOLD in str([each async for each in events])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"profile": "loud"}, "Wording: `profile`: unknown profile 'loud'"),
        ({"profile": 5}, "Wording: `profile`: unknown profile 5"),
        ({"verbosity": "loud"}, "Wording: `verbosity`: unknown verbosity 'loud'"),
        ({"templates": {"nothing": "text"}}, "Wording: `templates`: template 'nothing'"),
        ({"templates": 5}, "Wording: `templates`: "),
        ({"listed": -1}, "Wording: `listed` must be"),
        ({"listed": "many"}, "Wording: `listed` must be"),
    ],
)
def test_a_wrong_wording_is_refused_at_set_up(options: dict[str, Any], why: str) -> None:
    """The text names the option."""
    with pytest.raises(SetupError, match=why):
        Wording(**options)


@pytest.mark.parametrize("wrong", ["llmproc", Profile("mine")])
def test_what_is_no_wording_is_refused(wrong: Any) -> None:
    """A profile is put into a Wording first."""
    with pytest.raises(SetupError, match="`wording` must be a Wording"):
        standard(registry(), wording=wrong)


POLICY = """
profile = "llmproc"
verbosity = "terse"
listed = 3
[templates]
validation = "MINE {tool}"
"""


async def test_the_policy_of_a_proxy(tmp_path: Path) -> None:
    """The file words the texts of a relay; a mistake in it has its line."""
    file = tmp_path / "policy.toml"
    file.write_text(POLICY)
    policy = read_policy(file)
    assert policy.wording == Wording("llmproc", "terse", {"validation": "MINE {tool}"}, 3)
    call = Call("repeat", WRONG)
    assert render(await make_pipeline(registry(), policy)(call), call=call) == TOLD
    assert RelayPolicy().wording is None
    for mistake, line in (('profile = "loud"', 1), ('attempts = 2\nverbosity = "loud"', 2), ("listed = -1", 1)):
        file.write_text(mistake)
        with pytest.raises(SetupError, match=f"policy.toml:{line}: `"):
            read_policy(file)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--profile`` and ``--verbosity`` word what a command says that the model is told."""
    module = """
from toolcall_pipeline import ToolRegistry, Wording
from toolcall_pipeline.middlewares import standard
tools = ToolRegistry()
@tools.tool(effect="read")
async def repeat(times: int) -> str:
    return "x" * times
pipeline = standard(tools, wording=Wording(templates={"validation": "MINE {tool}"}))
"""
    with open_desk(tmp_path, monkeypatch, module) as desk:

        def call(target: str, *options: str) -> Any:
            arguments = ["call", f"{desk.module}:{target}", "repeat", '{"times": "many"}', "--no-trace", *options]
            return CliRunner().invoke(toolcall, arguments)

        assert call("pipeline").stdout == f"{TOLD}\n"
        agentopia = call("tools", "--profile", "agentopia").stdout
        assert agentopia != call("tools").stdout
        assert call("pipeline", "--profile", "agentopia").stdout == f"{TOLD}\n"  # its templates stay
        wrong = call("tools", "--profile", "loud")
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert "--profile: unknown profile 'loud'" in wrong.stderr
        desk.put({"name": "repeat", "arguments": {"times": "many"}})
        assert desk.run("--profile", "agentopia").exit_code == 0
        assert [row["told"] + "\n" for row in desk.rows] == [agentopia]
