"""The stages of the gallery keep the rules for stages, and a wrong place says what the table of the gallery says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from snippets import snippets
from support import a_call
from toolcall_pipeline import Call, Pipeline, SetupError, TimedOut, ToolRegistry, ValidCall
from toolcall_pipeline.middlewares import LoopGuard, Timeout, standard
from toolcall_pipeline.testing import check_stage

GALLERY = Path(__file__).parent.parent / "middlewares" / "GALLERY.md"
TABLE = GALLERY.read_text().partition("\n## ")[0]
PROGRAMS = [code for _, code in snippets(GALLERY.read_text())]
STAGES = ("authenticate", "permit", "Audit", "Hedge", "Only")


def program_of(name: str) -> str:
    """The program of the gallery that defines the class or function of that name."""
    defines = re.compile(rf"^(class|def) {name}\b", re.MULTILINE)
    return next(code for code in PROGRAMS if defines.search(code))


def load(name: str) -> dict[str, Any]:
    """The names of that program."""
    program: dict[str, Any] = {"__name__": "gallery"}
    exec(compile(program_of(name), "gallery", "exec", dont_inherit=True), program)  # our own text
    return program


def pipeline() -> Pipeline:
    return standard(ToolRegistry())


def for_tenant(program: dict[str, Any], tools: str = "probe") -> ValidCall:
    return a_call(principal="ann").with_state(program["TENANT"], program["Tenant"]("school", frozenset({tools})))


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_keeps_the_rules(name: str, tmp_path: Path) -> None:
    program = load(name)
    stages: dict[str, Callable[[Any], Any]] = {
        "Audit": lambda stage: stage(str(tmp_path / "audit.db")),
        "Hedge": lambda stage: stage(0.05),
        "Only": lambda stage: stage(frozenset({"probe"}), LoopGuard()),
    }
    stage = stages.get(name, lambda stage: stage)(program[name])
    if name != "permit":
        check_stage(stage)
    if name in ("authenticate", "permit"):
        check_stage(stage, call=for_tenant(program))


@pytest.mark.parametrize("name", STAGES)
def test_each_stage_is_short(name: str) -> None:
    """At most 25 lines, blank ones not counted."""
    found = re.search(rf"^(class|def) {name}\b.*?(?=^\S)", program_of(name), re.MULTILINE | re.DOTALL)
    assert found is not None
    assert len([line for line in found[0].splitlines() if line.strip()]) <= 25


WRONG: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("permit", "resolve", lambda stage: stage),
    ("Hedge", "retry", lambda stage: stage(0.05)),
]


@pytest.mark.parametrize(("name", "target", "make"), WRONG, ids=[name for name, *_ in WRONG])
def test_a_stage_too_far_outside(name: str, target: str, make: Callable[[Any], Any]) -> None:
    with pytest.raises(SetupError) as caught:
        pipeline().before(target, make(load(name)[name]))
    assert f"`{caught.value}`" in TABLE


def test_a_stage_too_far_inside() -> None:
    stage = load("Audit")["Audit"](":memory:")
    with pytest.raises(SetupError) as caught:
        pipeline().after("classify", stage)
    assert f"`{caught.value}`" in TABLE


def test_only_stands_where_the_stage_in_it_stands() -> None:
    """In a wrong place it is refused for the reason of that stage, under the name that it was given."""
    only = load("Only")["Only"](frozenset({"probe"}), LoopGuard())
    said: list[str] = []
    for stage in (LoopGuard(), only):
        with pytest.raises(SetupError) as caught:
            pipeline().after("retry", stage, name="guard")
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert (
        said[0]
        == "retry must stand inside of guard: LoopGuard counts what the model repeats, not what the runtime does"
    )


async def test_an_inner_stack_for_some_tools() -> None:
    """Two of them, one for each group of tools, make two inner stacks."""
    only, tools = load("Only")["Only"], ToolRegistry()

    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    for name in ("slow", "quick"):
        tools.tool(name=name, effect="read")(wait)
    slow, quick = only(frozenset({"slow"}), Timeout(0.2)), only(frozenset({"quick"}), Timeout(0.01))
    run = standard(tools, attempts=1).after("retry", slow, name="slow").after("slow", quick, name="quick")
    assert (await run.call("slow")).failure() == TimedOut(0.2)
    assert (await run.call("quick")).failure() == TimedOut(0.01)


async def test_what_only_a_call_shows(caplog: pytest.LogCaptureFixture) -> None:
    """A state that nobody set: the call is internal, and the log says why."""
    tools = ToolRegistry()
    tools.register(a_call().tool)
    text = "the call has no state 'tenant': a stage outside of here must set it"
    run = standard(tools).after("resolve", load("permit")["permit"])
    assert (await run(Call("probe"))).failure().kind == "internal"
    assert text in caplog.text
    assert f"`{text}`" in TABLE
