"""Names as providers take them: injective, allowed, stable, and the way back."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import ToolRegistry
from pipeline.adapters import provider_names as names_module
from pipeline.adapters.provider_names import ANTHROPIC, OPENAI, own_name, own_names, sent_names
from support import a_tool

LIMITS = st.sampled_from([OPENAI, ANTHROPIC])
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


@given(NAMES, LIMITS)
def test_names_are_mapped_injectively(names: list[str], longest: int) -> None:
    """Names on the wire are allowed ones, no two tools share one, and a name that is allowed stays as it is."""
    sent = sent_names(registry(names), longest)
    allowed = re.compile(rf"[a-zA-Z0-9_-]{{1,{longest}}}")
    assert set(sent) == set(names)
    assert len(set(sent.values())) == len(names)
    assert all(allowed.fullmatch(name) for name in sent.values())
    assert all(sent[name] == name for name in names if allowed.fullmatch(name))


@given(NAMES, LIMITS, st.randoms())
def test_names_are_stable(names: list[str], longest: int, random: Any) -> None:
    """The order of registration changes no name."""
    shuffled = random.sample(names, len(names))
    assert sent_names(registry(names), longest) == sent_names(registry(shuffled), longest)


@given(NAMES, LIMITS)
def test_names_find_their_way_back(names: list[str], longest: int) -> None:
    """The way back leads from each name on the wire to its own tool, whichever provider it was made for."""
    tools = registry(names)
    back = own_names(tools, longest)
    for name, sent in sent_names(tools, longest).items():
        assert back.get(sent, sent) == name
        assert own_name(tools, sent) == (None if sent == name else name)


def test_names_are_the_same_in_every_run() -> None:
    """A conversation that was stored goes on in another process: names on the wire are pinned."""
    assert sent_names(registry(["fs.read"]), OPENAI) == {"fs.read": "fs_read_4074bc02"}


def test_hashes_that_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the hashes of two names are the same, the names that are made differ, in any order."""

    def weak(data: bytes) -> Any:
        return sha256(data if b"\0" in data else b"")

    monkeypatch.setattr(names_module, "sha256", weak)
    sent = sent_names(registry(["a.b", "a/b", "a:b"]), OPENAI)
    assert len(set(sent.values())) == 3
    assert sent == sent_names(registry(["a:b", "a/b", "a.b"]), OPENAI)


def test_a_name_that_is_taken_is_not_made() -> None:
    """Where a tool or an alias already has the name that would be made, another one is made."""
    (made,) = sent_names(registry(["fs.read"]), OPENAI).values()
    for tools in (registry(["fs.read", made]), registry(["fs.read"])):
        if made not in tools:
            tools.register(a_tool("other", aliases=(made,)))
        assert sent_names(tools, OPENAI)["fs.read"] not in (made, "fs.read")
        assert own_names(tools, OPENAI).get(made) is None
