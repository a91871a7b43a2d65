"""Names in a text: those that the provider was sent, no more than are listed, and how many there are."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from returns.result import Failure

from error_cases import PROFILES
from support import a_tool
from toolcall_pipeline import Call, OutcomeUnknown, SetupError, ToolRegistry, UnknownTool, gather, render
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.base.provider_names import ANTHROPIC, OPENAI, OfferedName
from toolcall_pipeline.messages import Conversation
from toolcall_pipeline.middlewares import Resolve, standard

pytestmark = pytest.mark.anyio
LONG = "fs.read_the_whole_of_a_very_long_file_of_the_archive_of_last_year_and_of_this_one"  # longer than OpenAI takes


def holding(*names: str) -> ToolRegistry:
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    return tools


def openai_calls(name: str, tools: ToolRegistry | None) -> list[Call]:
    function = {"name": name, "arguments": "{}"}
    return openai.calls({"tool_calls": [{"id": "a", "type": "function", "function": function}]}, tools)


def anthropic_calls(name: str, tools: ToolRegistry | None) -> list[Call]:
    return anthropic.calls({"content": [{"type": "tool_use", "id": "a", "name": name, "input": {"n": 1}}]}, tools)


PROVIDERS: dict[str, tuple[Any, Any, Any, int]] = {
    "openai": (openai_calls, openai.tools, openai.message, OPENAI),
    "anthropic": (anthropic_calls, anthropic.tools, anthropic.message, ANTHROPIC),
}


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile != "llmproc"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_text_names_tools_as_the_provider_was_sent_them(provider: str, profile: str) -> None:
    """The suggestions and the list hold the names of the definitions, in every profile, and none of the tools' own."""
    calls, _, _, longest = PROVIDERS[provider]
    tools = holding("fs.read", "fs.write", LONG, "plain")
    sent = tools.provider_names(longest)
    (call,) = calls("fs_raed", tools)
    outcome = await standard(tools)(call)
    text, again = render(outcome, profile=profile), Conversation(profile).render(call, outcome)
    assert text == again
    assert sent["fs.read"] in text
    assert not any(own in text.replace(name, "") for own, name in sent.items() if own != name)
    (call,) = calls("nothing_like_it", tools)
    text = render(await standard(tools)(call), profile=profile)
    assert all(name in text for name in sent.values())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_adapter_knows_the_names_without_the_registry(provider: str) -> None:
    """If `calls` was not given the registry, the message that answers still holds the names that were sent."""
    calls, definitions, message, _ = PROVIDERS[provider]
    tools = holding("fs.read", LONG)
    for registry in (tools, None):
        (call,) = calls("fs_raed", registry)
        text = str(message(call, await standard(tools)(call)))
        names = [each.get("function", each)["name"] for each in definitions(tools)]
        assert all(name in text for name in names)
        assert "fs.read'" not in text
    lost = OutcomeUnknown(None, "fs.read")
    assert names[0] in str(message(call, Failure(lost)))
    assert lost.verify_with == "fs.read"


async def test_a_call_by_hand_is_answered_with_the_tools_own_names() -> None:
    """Without a provider there are no other names."""
    outcome = await standard(holding("fs.read")).call("fs_raed")
    assert outcome == Failure(UnknownTool("fs_raed", ("fs.read",), ("fs.read",)))


async def test_a_failed_tool_is_named_as_the_provider_was_sent_it() -> None:
    """The tool of the call, and the one that shows whether it took effect, have the provider's names in every text."""
    tools = ToolRegistry()

    @tools.tool(name="fs.write", verify_with="fs.read")
    async def write() -> None:
        raise ConnectionError

    tools.register(a_tool("fs.read"))
    sent = tools.provider_names(OPENAI)
    (call,) = openai_calls(sent["fs.write"], tools)
    outcome = await standard(tools)(call)
    for profile in PROFILES:
        for text in (render(outcome, profile=profile, tool=call.name), Conversation(profile).render(call, outcome)):
            assert sent["fs.read"] in text
            assert "fs.w" not in text
    assert f"Error executing tool '{sent['fs.write']}': " in render(outcome, profile="rfc015", tool=call.name)
    again = render(outcome, tool=call.name, templates={"fs.*:outcome_unknown": "{tool} failed"})
    assert again == f"{sent['fs.write']} failed"


def test_a_name_is_marked_unless_it_is_the_tools_own() -> None:
    """A call by a tool's own name keeps a plain one; the mark of another survives a pickle and is equal to the name."""
    tools = holding("fs.read", "plain")
    found = [openai_calls(name, tools)[0].name for name in ("plain", tools.provider_names(OPENAI)["fs.read"], "raed")]
    assert (found, [type(name) for name in found]) == (["plain", "fs.read", "raed"], [str, OfferedName, OfferedName])
    kept = pickle.loads(pickle.dumps(anthropic_calls("raed", tools)[0])).name
    assert isinstance(kept, OfferedName)
    assert (kept, kept.longest) == ("raed", ANTHROPIC)


async def test_a_marked_name_keeps_the_order_of_a_resource() -> None:
    """Calls by an alias, which an adapter marks, are put in order by their resource like any other."""
    tools = ToolRegistry()
    done: list[str] = []

    @tools.tool(aliases=("put",), resource="file")
    async def write(text: str) -> None:
        for _ in range(0 if done else 5):  # the first one is the slowest
            await checkpoint()
        done.append(text)

    (call,) = openai_calls("put", tools)
    assert type(call.name) is OfferedName
    await gather(standard(tools), [Call(call.name, {"text": text}) for text in "abc"])
    assert done == ["a", "b", "c"]


MANY = tuple(f"tool_{place}" for place in range(30))


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile != "llmproc"])
@pytest.mark.parametrize("sent", ["tol_7", "xyz"])
@pytest.mark.parametrize("listed", [20, 30, 0])
async def test_a_list_is_bounded(profile: str, sent: str, listed: int) -> None:
    """Up to ``listed`` tools are all named; of more, a text names the nearest and says how many there are."""
    tools = holding(*MANY)
    text = render(await standard(tools, listed=listed).call(sent), profile=profile)
    named = [name for name in MANY if f"{name}," in f"{text}," or f'{name}"' in text or f"{name}?" in text]
    if listed < 30:
        assert len(named) <= 3
        assert "30" in text or "27 more" in text
    if sent == "tol_7":
        assert "tool_7" in text
    elif listed == 30:
        assert all(name in text for name in MANY)


@pytest.mark.parametrize("profile", PROFILES)
async def test_an_empty_registry_says_so(profile: str) -> None:
    """Where no tool may be called, no text sends the model to an available one."""
    tools = holding("read")
    tools.disable("read")
    for registry in (tools, ToolRegistry()):
        text = render(await standard(registry).call("raed"), profile=profile)
        assert ("no tools are available" in text.lower()) == (profile != "llmproc")
        assert "try again with" not in text


@pytest.mark.parametrize("profile", PROFILES)
def test_a_text_may_list_fewer_than_its_error(profile: str) -> None:
    """``listed=`` of `render` and of a conversation bounds the list of one text; a longer one is not cut in silence."""
    error = UnknownTool("raed", ("read",), ("read", "write", "list"))
    short = render(error, profile=profile, listed=2)
    assert short == Conversation(profile, listed=2).render(Call("raed"), Failure(error))
    assert "write" not in short
    assert render(error, profile=profile, listed=3) == render(error, profile=profile)
    if profile != "llmproc":
        assert "read" in short
        assert "3" in short or "2 more" in short


def test_a_list_of_less_than_nothing() -> None:
    """A negative length is a mistake at set-up."""
    with pytest.raises(SetupError, match="Resolve: `listed` must be an integer ≥ 0, not -1"):
        Resolve(ToolRegistry(), listed=-1)
    with pytest.raises(SetupError, match="`listed` must be ≥ 0, not -1"):
        render(UnknownTool("x"), listed=-1)
    with pytest.raises(SetupError, match="`listed` must be ≥ 0, not -1"):
        Conversation(listed=-1)
