"""What `standard` was told to redact and to keep stays with the pipeline, whatever becomes of its stages."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any, cast

import pytest

from support import Exported
from toolcall_pipeline import Call, Handler, Outcome, Pipeline, SetupError, Stack, Success, ToolRegistry, render
from toolcall_pipeline.journal import read_forms
from toolcall_pipeline.messages import Wording
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.testing import record_calls

MINE = Wording("structured")
POLICY = """
[[rules]]
tool = "find"
arguments = {properties = {word = {const = "c"}}}
action = "deny"
"""
tools = ToolRegistry()


@tools.tool(effect="read")
async def find(word: str, code: str) -> str:
    """Find."""
    return word + code


async def passing(call: Call, call_next: Handler[Call]) -> Outcome:
    """Do nothing."""
    return await call_next(call)


def hide(path: str, value: object) -> object:
    return "hidden" if path == "code" else value


def made(**options: Any) -> Pipeline:
    return standard(tools, timeout=5, redact=hide, wording=MINE, **options)


STAGES = made().stages
EDITS: dict[str, Callable[[Pipeline], Pipeline]] = {
    "none": lambda pipeline: pipeline,
    "another trace": lambda pipeline: pipeline.replace("trace", Trace(stages=False)),
    "no trace": lambda pipeline: pipeline.without("trace"),
    "no trace, then one": lambda pipeline: pipeline.without("trace").before("resolve", Trace()),
    "bound": lambda pipeline: pipeline.with_(principal="ann").replace("trace", Trace()),
    "worded": lambda pipeline: pipeline.worded(MINE).replace("trace", Trace()),
    "the end of a stack": lambda pipeline: Stack().observe(Trace()).wrap(passing).end(pipeline.without("trace")),
    "recorded": lambda pipeline: record_calls(pipeline).replace("trace", Trace()),
    **{f"before {name}": methodcaller("before", name, passing) for name in STAGES[1:]},
    **{f"after {name}": methodcaller("after", name, passing) for name in STAGES[:-1]},
    **{f"without {name}": methodcaller("without", name) for name in ("retry", "timeout")},
    **{f"the same {entry.name}": methodcaller("replace", entry.name, entry.obj) for entry in made().entries},
}


@pytest.mark.parametrize("edit", EDITS)
async def test_every_edit_keeps_every_promise(edit: str, tmp_path: Path) -> None:
    """The journal has the call once, with what is redacted; so has the report; texts and rules stay as they are."""
    path = tmp_path / "calls.db"
    (tmp_path / "policy.toml").write_text(POLICY)
    async with EDITS[edit](made(journal=path, policy=tmp_path / "policy.toml")) as pipeline:
        denied = await pipeline.call("find", {"word": "c", "code": "1234"}, id="c0")
        assert (denied.failure().kind, pipeline.render(denied)) == ("permission", render(denied, wording=MINE))
        report = await pipeline.report(Call("find", {"word": "a", "code": "1234"}, id="c1"))
        await pipeline.call("find", {"word": "b", "code": "1234"}, id="c2")
        assert pipeline.wording == MINE
    assert report.call.arguments == {"word": "a", "code": "hidden"}
    forms = list(read_forms(path)[0])
    assert [form["id"] for form in forms] == ["c0", "c1", "c2"]
    assert "1234" not in str([form["arguments"] for form in forms])


async def test_a_trace_of_ones_own(tmp_path: Path) -> None:
    """Its spans, its sinks and its ``redact`` come beside what the pipeline redacts and keeps."""
    exported, heard = Exported(), list[Any]()
    trace = Trace(
        tracer_provider=exported.provider,
        sinks=[heard.append],
        redact=lambda path, value: "word" if path == "word" else value,
    )
    async with made(journal=tmp_path / "calls.db", trace=trace) as pipeline:
        await pipeline.call("find", {"word": "a", "code": "1234"})
    assert [report.call.arguments for report in heard] == [{"word": "word", "code": "hidden"}]
    assert exported.spans
    assert len(list(read_forms(tmp_path / "calls.db")[0])) == 1


async def test_several_observers() -> None:
    """Each records every call, attempts included, and what one of them redacts is redacted for all."""
    first, second, heard = Exported(), Exported(), list[Any]()
    other = Trace(tracer_provider=second.provider, sinks=[heard.append], redact=lambda path, value: path)
    pipeline = made(trace=Trace(tracer_provider=first.provider, content=True)).after("trace", other, name="other")
    assert await pipeline.call("find", {"word": "a", "code": "1234"}) == Success("a1234")
    assert (await pipeline.call("fnd")).failure().kind == "unknown_tool"
    names = [[span.name for span in each.spans] for each in (first, second)]
    assert names[0] == names[1]
    assert "attempt find" in names[0]
    assert heard[0].call.arguments == {"word": "word", "code": "code"}
    assert "1234" not in str([dict(span.attributes or {}) for span in first.spans if span.name == "execute_tool find"])
    assert len(heard) == 2
    stack = Stack().observe(Trace()).observe(other, name="other").end(made().without("trace"))
    assert stack.stages[:2] == ("trace", "other")
    with pytest.raises(SetupError, match="must stand outermost"):
        made().after("resolve", other, name="other")


def test_what_is_no_trace_is_refused() -> None:
    """At set-up."""
    with pytest.raises(SetupError, match="trace"):
        standard(tools, trace=cast("Any", "yes"))
