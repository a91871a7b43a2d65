"""Tool names as providers accept them: injective, allowed, the same in every process, and the way back."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import a_tool
from toolcall_pipeline import SetupError, ToolRegistry
from toolcall_pipeline.base import provider_names as names_module
from toolcall_pipeline.base.provider_names import ANTHROPIC, LIMITS, OPENAI

LONGEST = st.sampled_from(LIMITS)
NAMES = st.lists(
    st.one_of(
        st.text(min_size=1).filter(str.strip),
        st.text(alphabet="ab._-/é ", min_size=1, max_size=4).filter(str.strip),
        st.text(alphabet="ab.", min_size=60, max_size=140),
        st.sampled_from(["a.b", "a/b", "a_b", "a.b" * 40, "a.b" * 40 + "c"]),
        st.sampled_from(["a" * length for length in (63, 64, 65, 127, 128, 129)]),
    ),
    unique=True,
    max_size=8,
)


def registry(names: list[str]) -> ToolRegistry:
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name))
    return tools


@given(NAMES, LONGEST)
def test_names_are_mapped_injectively(names: list[str], longest: int) -> None:
    """Each name that is sent is an allowed one, no two tools share one, and a name that is allowed stays as it is."""
    sent = registry(names).provider_names(longest)
    allowed = re.compile(rf"[a-zA-Z0-9_-]{{1,{longest}}}")
    assert set(sent) == set(names)
    assert len(set(sent.values())) == len(names)
    assert all(allowed.fullmatch(name) for name in sent.values())
    assert all(sent[name] == name for name in names if allowed.fullmatch(name))


@given(NAMES, LONGEST, st.randoms())
def test_names_are_stable(names: list[str], longest: int, random: Any) -> None:
    """The order of registration changes no name."""
    shuffled = random.sample(names, len(names))
    assert registry(names).provider_names(longest) == registry(shuffled).provider_names(longest)


@given(NAMES)
def test_names_lead_back(names: list[str]) -> None:
    """A changed name leads back to its tool, whichever provider it was made for, also where none was ever made."""
    for tools in (registry(names), registry(names).view(names)):
        sent = {(name, longest): sent for longest in LIMITS for name, sent in tools.provider_names(longest).items()}
        for (name, _), changed in sent.items():
            found = registry(names).find_by_provider_name(changed)
            assert (None if found is None else found.name) == (None if changed == name else name)


def test_names_of_tools_that_come_later() -> None:
    """A tool that is registered later has a name too, in the registry and in its views."""
    tools = registry(["fs.read"])
    view = tools.view(["fs.read"])
    tools.provider_names(OPENAI)
    tools.register(a_tool("fs.write"))
    sent = tools.provider_names(OPENAI)["fs.write"]
    for each in (tools, view):
        assert each.find_by_provider_name(sent) is tools.tools["fs.write"]
        assert each.provider_names(OPENAI)["fs.write"] == sent


def test_names_are_the_same_in_every_process() -> None:
    """A stored conversation goes on in another process: the names that are sent are pinned."""
    assert registry(["fs.read"]).provider_names(OPENAI) == {"fs.read": "fs_read_4074bc02"}


def test_hashes_that_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the hashes of two names are the same, the names that are made differ, in any order of registration."""

    def weak(data: bytes) -> Any:
        return sha256(data if b"\0" in data else b"")

    monkeypatch.setattr("hashlib.sha256", weak)
    sent = registry(["a.b", "a/b", "a:b"]).provider_names(OPENAI)
    assert len(set(sent.values())) == 3
    assert sent == registry(["a:b", "a/b", "a.b"]).provider_names(OPENAI)


def test_no_name_leads_to_two_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that were made for different providers differ as well, unless they are names of one tool."""

    def colliding(_name: str, _longest: int, salt: int) -> str:
        return f"made_{salt:08}"

    monkeypatch.setattr(names_module, "_change_name", colliding)
    tools = registry(["a.b", "x" * 100])  # the second one is changed for OpenAI alone
    assert tools.provider_names(OPENAI) == {"a.b": "made_00000000", "x" * 100: "made_00000001"}
    assert tools.provider_names(ANTHROPIC) == {"a.b": "made_00000000", "x" * 100: "x" * 100}


def test_a_name_that_is_taken_is_not_made() -> None:
    """If a tool or an alias already has the name that would be made, another one is made."""
    (made,) = registry(["fs.read"]).provider_names(OPENAI).values()
    for tools in (registry(["fs.read", made]), registry(["fs.read"])):
        if made not in tools:
            tools.register(a_tool("other", aliases=(made,)))
        assert tools.provider_names(OPENAI)["fs.read"] not in (made, "fs.read")
        assert tools.find_by_provider_name(made) is None


def test_a_limit_that_no_provider_has() -> None:
    """Names that no process could read back are not made."""
    with pytest.raises(SetupError, match="names of 63 characters; known limits: 64, 128"):
        registry([]).provider_names(63)
