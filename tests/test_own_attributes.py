"""Attributes of the application's own: Trace(attributes=…) and Trace(principal=True)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from support import Exported, a_tool
from toolcall_pipeline import Call, Pipeline, Secret, SetupError, StateKey, ToolRegistry
from toolcall_pipeline.middlewares import Trace, standard

TENANT = StateKey[str]("tenant")


@pytest.fixture(autouse=True)
def nothing_told_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is told once in a process."""
    told: set[tuple[str, str]] = set()
    monkeypatch.setattr("toolcall_pipeline.telemetry.own_attributes._warned", told)


def traced(exported: Exported, attributes: Callable[[Call], Any] | None = None, **options: Any) -> Pipeline:
    tools = ToolRegistry()
    tools.register(a_tool())

    @tools.tool(effect="read")
    async def log_in(user: str, pin: Annotated[int, Secret]) -> str:
        return user

    return standard(tools).replace("trace", Trace(tracer_provider=exported.provider, attributes=attributes, **options))


def own(exported: Exported) -> dict[str, Any]:
    """The attributes of the application on the call span; on no other span is one."""
    by_top = {
        span.parent is None: {key: value for key, value in (span.attributes or {}).items() if key.startswith("app.")}
        for span in exported.spans
    }
    assert not by_top.get(False)
    return by_top[True]


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize("name", ["probe", "prob"])
async def test_attributes_of_the_application(defer: bool, name: str) -> None:
    """The function gets the call with all that its caller gave it, and its attributes are on the call span."""
    exported = Exported()

    def describe(call: Call) -> dict[str, Any]:
        return {"app.tenant": call.get_state(TENANT), "app.tier": call.deps, "app.name": call.name}

    await traced(exported, attributes=describe, defer=defer)(Call(name, deps=3).with_state(TENANT, "acme"))
    assert own(exported) == {"app.tenant": "acme", "app.tier": 3, "app.name": name}


async def test_the_function_sees_no_secret() -> None:
    """What the tool declares to be secret is taken out before the function is asked."""
    exported, seen = Exported(), list[Any]()
    pipeline = traced(exported, attributes=lambda call: seen.append(call.arguments))
    outcome = await pipeline.call("log_in", {"user": "ada", "pin": 482193})
    assert outcome.unwrap() == "ada"
    assert seen == [{"user": "ada", "pin": "[redacted]"}]


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


VALUES: list[tuple[Any, Any]] = [  # what the function returned, and what is recorded; None: nothing
    ("text", "text"),
    ("", ""),
    (Text("its own class"), "its own class"),
    ("a\udcff", "a?"),
    (True, True),
    (7, 7),
    (2**63 - 1, 2**63 - 1),
    (2**63, None),
    (-(2**63) - 1, None),
    (Number.ONE, 1),
    (1.5, 1.5),
    (["a", "b"], ("a", "b")),
    ((1, 2), (1, 2)),
    ([], ()),
    (["a", 1], None),
    ([True, 1], None),
    ([["a"]], None),
    ([None], None),
    ([2**64], None),
    (None, None),
    (b"bytes", None),
    ({"a": 1}, None),
    ({"a"}, None),
    (Colour.RED, None),
    (object, None),
]


@pytest.mark.parametrize(("given", "recorded"), VALUES, ids=lambda each: repr(each)[:30])
async def test_values(given: Any, recorded: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What no attribute can hold is left out, with a word in the log, and the others stay."""
    exported = Exported()
    pipeline = traced(exported, attributes=lambda _: {"app.value": given, "app.other": 1})
    for _ in range(2):
        await pipeline.call("probe")
    expected = {"app.other": 1} if recorded is None else {"app.value": recorded, "app.other": 1}
    assert own(exported) == expected
    left_out = [record.getMessage() for record in caplog.records]
    assert len(left_out) == (recorded is None)
    assert all("The attribute 'app.value' of Trace(attributes=…) is left out" in text for text in left_out)


@pytest.mark.parametrize(
    "key",
    ["gen_ai.operation.name", "gen_ai.tool.name", "error.type", "toolcall.attempts", "", 7, "exception.type"],
)
async def test_names_of_ours_stay(key: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A name of the library's own, and one that is no text, is left out with a word in the log."""
    exported = Exported()
    await traced(exported, attributes=lambda _: {key: "mine", "app.other": 1}).call("probe")
    assert own(exported) == {"app.other": 1}
    assert not any("mine" in (span.attributes or {}).values() for span in exported.spans)
    assert len(caplog.records) == 1


class Exits(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize(
    "returned",
    [RuntimeError("why"), SystemExit(3), Exits(), 7, ["ab"]],
    ids=["raises", "exits", "raises what is no Exception", "7", "a list"],
)
@pytest.mark.parametrize("stages", [True, False])
async def test_a_function_that_raises_loses_nothing(
    returned: object, stages: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If the function raises, or returns no mapping, that is logged; the span has all that is the library's."""
    exported = Exported()

    def describe(call: Call) -> object:
        if isinstance(returned, BaseException):
            raise returned
        return returned

    pipeline = traced(exported, attributes=describe, stages=stages, principal=True)
    outcome = await pipeline(Call("probe", id="c1", principal="ada"))
    assert outcome.unwrap() == "done"
    (root,) = [span for span in exported.spans if span.parent is None]
    assert (root.attributes or {})["gen_ai.tool.call.id"] == "c1"
    assert (root.attributes or {})["toolcall.principal"] == "ada"
    assert len(exported.spans) == (7 if stages else 2)
    assert ("toolcall.stage.execute.duration" in (root.attributes or {})) is not stages
    assert [record.getMessage() for record in caplog.records] == ["The attributes of a call could not be made"]


class Broken(Sequence[int]):
    """A value with a bug."""

    def __len__(self) -> int:
        raise RuntimeError("why")

    def __getitem__(self, place: Any) -> Any:
        raise RuntimeError("why")


class BrokenName(str):
    """A name with a bug."""

    __slots__ = ()

    def startswith(self, *_: Any) -> bool:
        raise RuntimeError("why")


async def test_a_broken_value_loses_no_other() -> None:
    """What is wrong with one attribute changes nothing about those after it."""
    exported = Exported()
    given: dict[str, Any] = {"app.broken": Broken(), BrokenName("app.name"): 1, "app.last": 2}
    await traced(exported, attributes=lambda call: given)(Call("probe"))
    (root,) = [span for span in exported.spans if span.parent is None]
    found = {key: value for key, value in (root.attributes or {}).items() if key.startswith("app.")}
    assert found == {"app.name": 1, "app.last": 2}


async def test_many_attributes_push_none_of_ours_out(caplog: pytest.LogCaptureFixture) -> None:
    """Of any number of attributes as many are recorded as leave room for the library's own."""
    exported = Exported()
    await traced(exported, attributes=lambda call: {f"app.{n}": n for n in range(1000)})(Call("nothing"))
    (root,) = exported.spans[-1:]
    names = list(root.attributes or {})
    assert sum(name.startswith("app.") for name in names) == 64
    assert {"gen_ai.tool.name", "gen_ai.operation.name", "error.type"} <= set(names)
    assert [each.getMessage() for each in caplog.records if "64" in each.getMessage()] == [
        "The attribute 'app.64' of Trace(attributes=…) is left out: there are more than 64"
    ]


async def test_no_attributes() -> None:
    """None and an empty mapping are no attributes."""
    returned: list[object] = [None, {}]
    exported = Exported()
    await traced(exported, lambda _: returned.pop()).call("probe")
    await traced(exported, lambda _: returned.pop()).call("probe")
    assert returned == []
    assert own(exported) == {}


@pytest.mark.parametrize(
    ("principal", "told", "expected"),
    [(True, "ada", "ada"), (True, "", None), (False, "ada", None), (True, "a\udcff" * 100, "a?" * 64)],
)
async def test_the_principal_is_told_by_opt_in(principal: bool, told: str, expected: str | None) -> None:
    """Who asks is on the call span if that was asked for, and never on a metric."""
    exported, reader = Exported(), InMemoryMetricReader()
    pipeline = traced(exported, principal=principal, meter_provider=MeterProvider([reader]))
    await pipeline(Call("probe", principal=told))
    found = [(span.attributes or {}).get("toolcall.principal") for span in exported.spans]
    assert [each for each in found if each is not None] == ([] if expected is None else [expected])
    assert "principal" not in str(reader.get_metrics_data())


async def describe_async(call: Call) -> dict[str, str]:
    return {}


@pytest.mark.parametrize("options", [{"attributes": 7}, {"attributes": describe_async}, {"principal": "ada"}])
def test_set_up_errors(options: dict[str, Any]) -> None:
    """An option of another type is refused; the function is a plain one."""
    with pytest.raises(SetupError, match=f"Trace: `{next(iter(options))}` must be"):
        Trace(**options)
