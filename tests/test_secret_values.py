"""Secrets by value: a scalar or a key that equals one leaves by no door, and no public object shows one."""

from __future__ import annotations

import gc
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Annotated, Any, NamedTuple, cast

import attrs
import pytest
from pydantic import BaseModel, SecretStr
from pydantic import Secret as PydanticSecret

from support import Exported
from toolcall_pipeline import (
    Approvals,
    Call,
    Handler,
    Outcome,
    Secret,
    Success,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    gather,
)
from toolcall_pipeline.builtin import install
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.middlewares import Approve, Audit, LoopGuard, Trace, Validate, standard
from toolcall_pipeline.once.kept_outcomes import write_outcome
from toolcall_pipeline.stores import Memory, SQLite
from toolcall_pipeline.telemetry import Events, events_of


@dataclass
class Data:
    x: Any


@attrs.frozen
class Attrs:
    x: Any


class Model(BaseModel):
    x: Any


class Pair(NamedTuple):
    x: Any


def enum_of(value: Any) -> Any:
    make: Any = Enum
    return make("Kinds", {"A": value})["A"]


# What a tool may make of a secret: each is the secret as a scalar or as a key, in some type and some place.
FORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda secret: secret,
    "a text": str,
    "a text with blanks": lambda secret: f" {secret}\n",
    "bytes": lambda secret: str(secret).encode(),
    "a bytearray": lambda secret: bytearray(str(secret).encode()),
    "a path": lambda secret: PurePath(str(secret)),
    "an enum": enum_of,
    "a list": lambda secret: [secret],
    "a tuple": lambda secret: (1, secret),
    "a set": lambda secret: {secret},
    "bytes in a list": lambda secret: [str(secret).encode()],
    "deep": lambda secret: {"a": [{"b": (secret,)}]},
    "a key": lambda secret: {secret: 1},
    "a key that is text": lambda secret: {"a": {str(secret): 1}},
    "a dataclass": Data,
    "attrs": Attrs,
    "a model": lambda secret: Model(x=secret),
    "a named tuple": Pair,
    "JSON": lambda secret: json.dumps({"a": secret, str(secret): [str(secret)]}, default=str),
    "JSON of a list": lambda secret: json.dumps([secret], default=str),
    "a text of JSON": lambda secret: json.dumps(str(secret)),
    "a text of Python": lambda secret: repr(str(secret)),
    "a Success": Success,
    "an int": lambda secret: int(str(secret)),
    "a float": float,
    "a Decimal": lambda secret: Decimal(str(secret)),
    "a number in fixed places": lambda secret: f"{float(secret):.2f}",
    "a number with zeros": lambda secret: f"00{int(secret)}",
}
# The annotation, what is sent, and each secret in it.
SECRETS: dict[str, tuple[Any, Any, list[Any]]] = {
    "int": (Annotated[int, Secret], 97153, [97153]),
    "negative": (Annotated[int, Secret], -97153, [-97153]),
    "float": (Annotated[float, Secret], 971.53, [971.53]),
    "Decimal": (Annotated[Decimal, Secret], "971.53", [Decimal("971.53")]),
    "of pydantic": (PydanticSecret[int], 97153, [97153]),
    "optional": (Annotated[int | None, Secret], 97153, [97153]),
    "number or text": (Annotated[int | str, Secret], "97153", ["97153", 97153]),
    "digits": (Annotated[str, Secret], "097153", ["097153"]),
    "a short text": (Annotated[str, Secret], "qzxvk", ["qzxvk"]),
    "a long text": (Annotated[str, Secret], "qzxvk-jwq", ["qzxvk-jwq"]),
    "a key": (dict[SecretStr, int], {"qzxvk": 12}, ["qzxvk"]),
    "a dict": (Annotated[dict[str, Any], Secret], {"qzxvk": 97153}, ["qzxvk", 97153]),
    "a list": (Annotated[list[int], Secret], [97153, 4_111_222], [97153, 4_111_222]),
}
# No part of a longer number or word: ids and times may hold any digits.
NEEDLES = re.compile(r"(?<![0-9a-zA-Z.])0*(97153|971\.53|4111222)(?![0-9a-zA-Z])|qzxvk")


def list_forms(secrets: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, secret in enumerate(secrets):
        for name, form in FORMS.items():
            try:
                made[f"{name} {number}"] = form(secret)
            except (ValueError, ArithmeticError):  # no number
                continue
    return made


def leaks(*texts: str) -> list[str]:
    return [text[max(0, found.start() - 60) : found.end() + 20] for text in texts if (found := NEEDLES.search(text))]


def tools_of(hint: Any, value: Any) -> ToolRegistry:
    async def probe(value: Any, ask: bool = False) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    answer = value
    probe.__annotations__ = {"value": hint, "ask": bool}
    tools = ToolRegistry()
    tools.tool(probe)
    return tools


@pytest.mark.parametrize("shape", SECRETS)
@pytest.mark.parametrize("way", ["returned", "told"])
async def test_no_door_lets_a_secret_out(shape: str, way: str, tmp_path: Path) -> None:
    """Store, journal, audit, span, event, report, pickle and a repeated answer show no form of a secret."""
    hint, sent, secrets = SECRETS[shape]
    forms = list_forms(secrets)
    told = ToolFailed("x", value=[*forms.values()], details=forms)
    exported, heard = Exported(), list[str]()
    tools = tools_of(hint, forms if way == "returned" else told)
    traced = Trace(tracer_provider=exported.provider, content=True, openinference=True)
    await standard(tools).replace("trace", traced)(Call("probe", {"value": sent}))
    store = SQLite(tmp_path / "store.db")
    made = standard(tools, store=store, journal=tmp_path / "calls.db")
    made = made.before("ledger", Audit(SQLite(tmp_path / "audit.db"), content=True))
    made = made.before("ledger", Approve(store, needs=lambda call: bool(call.params.get("ask"))))
    async with made as pipeline:
        with Events(content=True) as events:
            report = await pipeline.report(Call("probe", {"value": sent}, "c1", conversation="t"), listener=events)
        heard += [repr(event) async for event in events]
        again = await pipeline.report(Call("probe", {"value": sent}, "c1", conversation="t"))
        await pipeline(Call("probe", {"value": sent, "ask": True}, "c2", conversation="t"))
        pending = await Approvals(store).pending()
    assert (report.error is not None) == (way == "told")
    assert heard
    assert len(pending) == 1
    texts = [report.to_json(), repr(report), repr(list(events_of(report))), again.to_json(), repr(pending), *heard]
    texts += [repr(pickle.loads(pickle.dumps(report)).outcome), *(span.to_json() for span in exported.spans)]
    texts += [each.read_bytes().decode("latin-1") for each in tmp_path.iterdir()]  # noqa: ASYNC240  # nothing else runs
    assert leaks(*texts) == []


@pytest.mark.parametrize("shape", SECRETS)
@pytest.mark.parametrize("form", FORMS)
def test_a_kept_answer_has_no_secret(form: str, shape: str) -> None:
    """An answer of any type is kept without the secret, whichever form it is kept in."""
    hint, sent, secrets = SECRETS[shape]
    for secret in secrets:
        try:
            value = FORMS[form](secret)
        except (ValueError, ArithmeticError):
            continue
        tool: Tool[..., Any] = tools_of(hint, None).tools["probe"]
        call: Any = Validate()(Call("probe", {"value": sent}).resolved(tool))
        assert leaks(json.dumps(write_outcome(Success(value), call), default=str)) == []


async def test_what_only_looks_like_a_secret_is_kept() -> None:
    """Truth values, None, a single digit and longer words stay, also in text that holds JSON."""
    plain = {"a": True, "b": None, "c": 1, "d": "97153x", "e": 971530, "f": '{"g": [971530, true]}', "h": "[97, 153]"}
    for secret in (97153, 1):  # of which the second is a single digit
        pipeline = standard(tools_of(Annotated[int, Secret], plain))
        report = await pipeline.report(Call("probe", {"value": secret}))
        assert json.loads(report.to_json())["value"] == plain


async def test_a_report_that_was_asked_early_keeps_no_secret() -> None:
    """A stage that shows the report before the tool is found does not make it forget that tool's secrets."""
    seen: list[str] = []

    async def show(call: Call, call_next: Handler[Call]) -> Outcome:
        seen.append(repr(call.report))
        return await call_next(call)

    exported = Exported()
    pipeline = standard(tools_of(Annotated[str, Secret], {"a": "qzxvk-jwq"})).before("resolve", show)
    traced = pipeline.replace("trace", Trace(tracer_provider=exported.provider, content=True))
    report = await traced.report(Call("probe", {"value": "qzxvk-jwq"}))
    assert leaks(*seen, report.to_json(), repr(report), *(span.to_json() for span in exported.spans)) == []
    assert "[redacted]" in report.to_json()


async def test_a_batch_keeps_no_secret_of_its_calls() -> None:
    """Audit and approval keep of a composite tool neither arguments nor answer, where a tool declares a secret."""
    for tools, has_secrets in ((tools_of(Annotated[str, Secret], "got qzxvk-jwq"), True), (tools_of(str, "x"), False)):
        store = Memory()
        made = standard(tools, store=store).before("ledger", Audit(store, content=True))
        made = made.before("ledger", Approve(store, needs=lambda call: call.id == "ask" and "for qzxvk-jwq"))
        install(tools, made)
        async with made as pipeline:
            inner = {"tool": "probe", "args": {"value": "qzxvk-jwq"}}
            for id_ in ("run", "ask"):
                await pipeline(Call("batch", {"calls": [inner]}, id_, conversation=str(has_secrets)))
        kept = "".join([repr(entry.value) async for _, entry in store.scan()])
        assert (leaks(kept) == []) is has_secrets
        assert "batch" in kept


async def test_a_secret_that_is_sent_again_is_in_no_audit() -> None:
    """The rows of an audit have it neither where it is declared nor where a model repeats it."""

    async def probe(value: Annotated[str, Secret], note: str) -> None:
        """Take a note."""

    probe.__annotations__ = {"value": Annotated[str, Secret], "note": str}
    tools, store = ToolRegistry(), Memory()
    tools.tool(probe)
    async with standard(tools).before("retry", Audit(store, content=True)) as pipeline:
        await pipeline(Call("probe", {"value": "qzxvk-jwq", "note": "with qzxvk-jwq"}))
    kept = [repr(entry.value) async for _, entry in store.scan()]
    assert kept
    assert leaks(*kept) == []


SHOWN_BY_PYTHON = ("Given", "ToolFailed", "ExecutionFailed")  # a dict of params, and the author's own words


def find_shown(secret: str) -> set[str]:
    """The classes of this package of which an object that is alive has it in its repr."""
    found: set[str] = set()
    for each in gc.get_objects():
        cls = cast("type[Any]", type(each))
        if not str(getattr(cls, "__module__", "")).startswith("toolcall_pipeline") or cls.__name__ in SHOWN_BY_PYTHON:
            continue
        try:
            text = repr(each)
        except Exception:  # one that is being made
            continue
        if secret in text:
            found.add(f"{cls.__module__}.{cls.__qualname__}")
    return found


async def test_no_object_of_ours_shows_a_secret() -> None:
    """While a call runs and afterwards, no object of this package has a secret in its repr."""
    secret, shown, done = "hunter2-qzxvk-jwq", set[str](), list[str]()

    def look(when: str) -> None:
        done.append(when)
        shown.update(f"{name} ({when})" for name in find_shown(secret))

    tools = ToolRegistry()

    @tools.tool(context=True)
    async def pay(context: ToolContext, password: Annotated[str, Secret], how: str = "") -> Any:
        context.progress(1, message=f"with {password}")
        look("in the body")
        if how == "lose":
            raise ConnectionError(password)
        if how == "fail":
            raise ToolFailed(f"no {password}", value=password)
        return {"password": password}

    async def watch(call: Call, call_next: Handler[Call]) -> Outcome:
        outcome = await call_next(call)
        look("in a stage")
        return outcome

    async def model(*_: object) -> list[Call]:
        look("in a turn")
        return [Call("pay", {"password": secret})]

    made = standard(tools, store=Memory(), timeout=60).before("retry", watch).before("ledger", LoopGuard())
    async with made as pipeline:
        for how in ("", "lose", "fail"):
            report = await pipeline.report(Call("pay", {"password": secret, "how": how}, conversation="c" + how))
            look("of a report")
        outcomes = await gather(pipeline, [Call("pay", {"password": secret}, str(n)) for n in range(2)])
        turn = await run_turn(model, [Call("pay", {"password": [secret]}), Call("pay", {"password": secret})], pipeline)
        look("of a turn")
    assert pay.name == "pay"
    assert (report, len(outcomes), len(turn.answered)) == (report, 2, 2)
    assert len(done) > 10
    assert shown == set()
