"""Secrets by declaration: what a parameter declares to be secret reaches its tool, and is recorded nowhere."""

from __future__ import annotations

import json
import logging
import pickle
from base64 import b32encode, b64encode, b85encode
from codecs import encode
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from gzip import compress
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast
from urllib.parse import quote, quote_plus
from uuid import UUID

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic import AfterValidator, BaseModel, Field, SecretBytes, SecretStr
from pydantic import Secret as PydanticSecret
from returns.result import Failure, Success
from typing_extensions import TypedDict

from error_cases import PROFILES, VERBOSITIES
from support import Exported, a_tool, nothing
from toolcall_pipeline import (
    Approvals,
    Call,
    CallReport,
    Denied,
    FailureDetails,
    Handler,
    Outcome,
    OutcomeUnknown,
    Pipeline,
    Repair,
    Secret,
    SetupError,
    Tool,
    ToolContext,
    ToolFailed,
    ToolRegistry,
    Transient,
    approved,
    is_failure,
    raise_for_error,
    render,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.builtin import install
from toolcall_pipeline.cli.run.calls_file import CallLine
from toolcall_pipeline.cli.run.result_rows import build_row, encode_row
from toolcall_pipeline.dialogue import run_turn
from toolcall_pipeline.engine.errors import ExecutionFailed
from toolcall_pipeline.engine.report import Progress
from toolcall_pipeline.executors.remote_errors import decode_error, encode_error
from toolcall_pipeline.middlewares import (
    Approve,
    Audit,
    Classify,
    Execute,
    Ledger,
    LoopGuard,
    Retry,
    Trace,
    Validate,
    standard,
)
from toolcall_pipeline.privacy import ForeignText
from toolcall_pipeline.privacy.redaction import Redaction
from toolcall_pipeline.stores import Memory, Postgres, Redis, SQLite
from toolcall_pipeline.telemetry import Events, events_of
from toolcall_pipeline.tools import returned_error

CANARY = "canary-pa55-w\u00f6rd\"'\n7f3a"  # with what is escaped in JSON, in Python and in a URL
NUMBER = 4_111_000_011_112_222
DIGITS = str(NUMBER)


class Login(BaseModel):
    user: str = "ada"
    password: Annotated[str, Secret]


class Account(BaseModel):
    token: SecretStr
    logins: list[Login] = []


@dataclass
class Card:
    number: Annotated[int, Secret]
    name: str = "ada"


@attrs.define
class Key:
    text: Annotated[str, Secret]


class Proxy(TypedDict):
    host: str
    key: SecretStr


def refuse(value: str) -> str:
    raise ValueError(f"{value} is too simple")


# The annotation of a parameter, and a value for it. Each of them has a secret.
SHAPES: dict[str, tuple[Any, Any]] = {
    "Secret": (Annotated[str, Secret], CANARY),
    "an instance of Secret": (Annotated[str, Secret()], CANARY),
    "Secret, optional": (Annotated[str | None, Secret], CANARY),
    "optional, Secret": (Union[Annotated[str, Secret], None], CANARY),  # noqa: UP007  # no type checker knows it with a bar
    "a number": (Annotated[int, Secret], NUMBER),
    "SecretStr": (SecretStr, CANARY),
    "SecretBytes": (SecretBytes, CANARY),
    "Secret of pydantic": (PydanticSecret[int], NUMBER),
    "a list": (list[SecretStr], [CANARY]),
    "a list that is secret": (Annotated[list[str], Secret], [CANARY]),
    "a dict": (dict[str, SecretStr], {"a": CANARY}),
    "the keys of a dict": (dict[SecretStr, int], {CANARY: 1}),
    "a dict that is secret": (Annotated[dict[str, Any], Secret], {"a": [CANARY]}),
    "a tuple": (tuple[int, SecretStr], [1, CANARY]),
    "a model": (Login, {"password": CANARY}),
    "a model in a model in a list": (list[Account], [{"token": CANARY, "logins": [{"password": CANARY}]}]),
    "a model that is secret": (Annotated[Login, Secret], {"user": CANARY, "password": CANARY}),
    "a union of models": (Login | Card, {"password": CANARY}),
    "a dataclass": (Card, {"number": NUMBER}),
    "an attrs class": (Key, {"text": CANARY}),
    "a TypedDict": (Proxy, {"host": "h", "key": CANARY}),
    "Field": (Annotated[str, Field(json_schema_extra={"writeOnly": True})], CANARY),
    "Field with a format": (Annotated[str, Field(json_schema_extra={"format": "password"})], CANARY),
    "a validator of the author's": (Annotated[str, Secret, AfterValidator(refuse)], CANARY),
    "one of several": (Annotated[Literal["a", "b"], Secret], CANARY),
}

PASSWORD = {"type": "string", "writeOnly": True}
# The schema of a parameter, as from a remote server, and a value for it.
SCHEMAS: dict[str, tuple[Any, Any]] = {
    "writeOnly": (PASSWORD, CANARY),
    "format": ({"type": "string", "format": "password"}, CANARY),
    "a reference": ({"$ref": "#/$defs/password"}, CANARY),
    "a reference by an anchor": ({"$ref": "#pw"}, CANARY),
    "a dynamic reference": ({"$dynamicRef": "#pw"}, CANARY),
    "a reference by an id": ({"$ref": "urn:test:pw"}, CANARY),
    "beside a reference": ({"$ref": "#/$defs/text", "writeOnly": True}, CANARY),
    "allOf": ({"allOf": [{"type": "string"}, {"writeOnly": True}]}, CANARY),
    "then": ({"if": {"type": "string"}, "then": {"writeOnly": True}}, CANARY),
    "an item": ({"type": "array", "prefixItems": [{"type": "integer"}, PASSWORD]}, [1, CANARY]),
    "any name": ({"type": "object", "additionalProperties": PASSWORD}, {"a": CANARY}),
    "names by a pattern": ({"type": "object", "patternProperties": {"^p": PASSWORD}}, {"pw": CANARY}),
    "a tree": ({"$ref": "#/$defs/tree"}, {"below": [{"below": [{"password": CANARY}]}]}),
}
DEFINITIONS = {
    "password": PASSWORD,
    "anchored": {"$dynamicAnchor": "pw", **PASSWORD},
    "named": {"$id": "urn:test:pw", **PASSWORD},
    "text": {"type": "string"},
    "tree": {
        "type": "object",
        "properties": {"password": PASSWORD, "below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    },
}


def make_function_tool(annotation: Any, act: Callable[[Any], object]) -> Tool[..., Any]:
    async def probe(value: Any, plain: Any = "x") -> object:
        return act(value)

    probe.__annotations__ = {"value": annotation, "plain": str}
    return ToolRegistry().tool(effect="read", reveal=(RefusedError, LookupError), errors={LookupError: "not_found"})(
        probe
    )


def make_schema_tool(schema: Any, act: Callable[[Any], object]) -> Tool[..., Any]:
    async def probe(value: Any, plain: Any = "x") -> object:
        return act(value)

    whole = {
        "type": "object",
        "properties": {"value": schema, "plain": {"type": "string"}},
        "required": ["value"],
        "$defs": DEFINITIONS,
    }
    return Tool.from_schema(name="probe", parameters=whole, handler=probe, effect="read")


def list_texts(value: Any) -> list[str]:
    """The texts and numbers in a value, as text."""
    if isinstance(value, dict):
        return [text for pair in cast("dict[Any, Any]", value).items() for each in pair for text in list_texts(each)]
    if isinstance(value, (list, tuple)):
        return [text for each in cast("list[Any]", value) for text in list_texts(each)]
    if hasattr(value, "get_secret_value"):
        return list_texts(value.get_secret_value())
    if isinstance(value, bytes):
        return [value.decode()]
    fields = getattr(value, "__dict__", None) or {name: getattr(value, name, "") for name in ("text",)}
    return [str(value)] if isinstance(value, (str, int)) else list_texts([*fields.values()])


def tell(value: Any) -> str:
    """What a careless author writes into a message: the secrets of a value, as they are usually written."""
    plain = " ".join(sorted(list_texts(value)))
    return f"{plain} {plain!r} {json.dumps(plain)} {quote(plain)} {quote_plus(plain)} {b64encode(plain.encode())!r}"


# Codes in which a backend may repeat a secret in its error. Nothing knows them, so such a text is not recorded.
CODES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "reversed": lambda text: text[::-1],
    "rot13": lambda text: encode(text, "rot13"),
    "base32": lambda text: b32encode(text.encode()).decode(),
    "base85": lambda text: b85encode(text.encode()).decode(),
    "gzip": lambda text: compress(text.encode(), mtime=0).hex(),
    "other letters": str.swapcase,
    "apart": "-".join,
    "numbers": lambda text: " ".join(str(3 * ord(char)) for char in text),
    "the beginning": lambda text: text[:5] + "...",
}


class RefusedError(Exception):
    """An exception whose text the tool reveals."""


NOTHING: dict[str, object] = {}


def crash(text: str) -> object:
    try:
        return NOTHING[text]
    except KeyError as exc:
        error = RuntimeError(text)
        error.add_note(text)
        raise ExceptionGroup(text, [error, OSError(text)]) from exc


def crash_elsewhere(text: str) -> object:
    raise decode_error(encode_error(ValueError(text), pickle.dumps))


def lose(text: str) -> object:
    raise ConnectionError(f"https://ada:{text}@host")


def reveal(text: str) -> object:
    raise RefusedError(text)


def reveal_as(text: str) -> object:
    raise LookupError(text)  # that the table of the tool calls a kind


def report_failure(text: str) -> object:
    return {"ok": False, "error": text, "details": {"parameter": text, "suggestion": text, "more": text}}


def time_out(text: str) -> object:
    return {"ok": False, "errorType": "timeout", "error": text}


def exit_with(text: str) -> object:
    return {"exitCode": 1, "stderr": text, "stdout": text, "command": ["curl", text]}


FOREIGN = (crash, crash_elsewhere, lose, reveal, reveal_as, report_failure, time_out, exit_with)


def fail(text: str) -> object:
    raise ToolFailed(text, suggestion=text, value={"a": text}, details={text: text})


def refuse_again(text: str) -> object:
    raise ToolFailed(text, kind="validation", parameter="value")


def ask(text: str) -> object:
    raise ToolFailed(text, kind="needs_input")


def answer(text: str) -> object:
    return Failure(ExecutionFailed(approved(text), FailureDetails("plain", approved(text))))


def deny(text: str) -> object:
    return Failure(Denied("probe", approved(text)))


def echo(text: str) -> object:
    return {"told": text, text: [text]}


OWN = (fail, refuse_again, ask, answer, deny, echo)


def send(value: Any) -> Iterator[tuple[str, Any]]:
    """A call of the tool in the ways in which models write it, well and badly."""
    yield "probe", {"value": value}
    yield "probe", json.dumps({"value": value})
    yield "probe", json.dumps({"value": value}, ensure_ascii=False)
    yield "probe", {"Value": value}
    yield "probe", {"arguments": {"value": value}}
    yield "probe", {"value": json.dumps(value)}
    yield "probe", {"value": [value]}
    yield "probe", {"value": {"value": value}}
    yield "probe", {"value": value, "plain": 1}
    yield "probe", {"value": 3.5, "values": value}
    yield "probe", json.dumps({"value": value})[:-3]
    yield "probe", [value]
    yield "prob", {"value": value}
    yield "closed", {"value": value}


class Records(logging.Handler):
    """Keeps every record, as a file would have it and as a structured log would."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [self.format(record), repr(vars(record))]

    @contextmanager
    def attached(self) -> Generator[None]:
        logger = logging.getLogger("toolcall_pipeline")
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        yield
        logger.removeHandler(self)
        logger.setLevel(level)


@pytest.fixture
def records() -> Iterator[Records]:
    handler = Records()
    with handler.attached():
        yield handler


class Recorded:
    """A pipeline over one tool, recorded in every way."""

    def __init__(self, tool: Tool[..., Any], *, foreign_text: ForeignText = "withhold", **options: Any) -> None:
        self.exported, self.reader, self.reports = Exported(), InMemoryMetricReader(), list[CallReport]()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        tools = ToolRegistry()
        tools.register(tool)
        tools.register(Tool.from_schema(name="closed", parameters=tool.parameters.schema, handler=print, effect="read"))
        tools.disable("closed")
        trace = Trace(
            tracer_provider=self.exported.provider,
            meter_provider=self.meters,
            sinks=[self.reports.append],
            content=True,
            openinference=True,
            **options,
        )
        retry = Retry(attempts=2, sleep=anyio.sleep, first_delay=0)
        made = standard(tools, detect=returned_error, foreign_text=foreign_text)
        self.pipeline: Pipeline = made.replace("trace", trace).replace("retry", retry)

    def shown(self) -> Iterator[str]:
        """All that was recorded and exported."""
        yield from (span.to_json() for span in self.exported.spans)
        data = self.reader.get_metrics_data()
        yield data.to_json() if data else ""


def show(report: CallReport) -> Iterator[str]:
    """A report as it is shown, stored and sent on, with the error texts of every profile."""
    outcome = report.outcome
    assert outcome is not None
    yield repr(report)
    yield repr(report.call)
    yield repr(report.call.arguments)
    yield repr(report.repairs)
    yield repr(list(events_of(report)))
    yield encode_row(build_row(CallLine(1, "c", "probe", report.call), report)).decode()
    if is_failure(outcome):
        error = outcome.failure()
        yield repr(outcome)
        yield repr(pickle.dumps(report))
        yield repr(openai.message(report.call, outcome))
        yield repr(anthropic.message(report.call, outcome))
        for profile in PROFILES:
            yield from (render(error, profile=profile, verbosity=each, repairs=report.repairs) for each in VERBOSITIES)
        try:
            raise_for_error(outcome)
        except Exception as exc:
            yield f"{exc} {exc!r}"


def leaks(texts: Iterator[str]) -> list[str]:
    """The texts that hold the secret or its beginning, however it is escaped."""
    return [text for text in texts if "canary-pa55" in text or DIGITS in text]


async def search(tool: Tool[..., Any], value: Any, records: Records) -> None:
    recorded = Recorded(tool)
    for name, arguments in send(value):
        call = Call(name, arguments, "c1")
        report = await recorded.pipeline.report(call)
        assert leaks(iter([repr(call)])) == []
        assert leaks(show(report)) == [], (name, arguments)
    assert leaks(text for each in recorded.reports for text in (repr(each), repr(each.call.arguments))) == []
    assert recorded.exported.spans
    assert leaks(recorded.shown()) == []
    assert leaks(iter(records.lines)) == []


def act_on(act: Callable[[str], object], text: str, _: Any) -> object:
    return act(text)


def give(value: object, _: Any) -> object:
    return value


def act_with(act: Callable[[str], object]) -> Callable[[Any], object]:
    return lambda value: act(tell(value))


# The first two signs stand in no time and no id of a record.
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=["C", "Z"]), min_size=4).map(
    "\u00a4\u00b6{}".format
)


@pytest.mark.parametrize("act", FOREIGN, ids=lambda act: act.__name__)
@given(secret=SECRETS, code=st.sampled_from(sorted(CODES)))
def test_no_text_of_others_leaves(act: Callable[[str], object], secret: str, code: str) -> None:
    """Whatever others say of a secret, in any code: no text, report, span, metric, row or record has it."""
    written = f"<{CODES[code](secret)}>"
    tool = make_function_tool(Annotated[str, Secret], lambda _: act(written))
    records = Records()
    with records.attached():
        recorded = Recorded(tool)
        report = anyio.run(recorded.pipeline.report, Call("probe", {"value": secret}, "c1"))
    forms = {written[:-1], repr(written)[1:-2], json.dumps(written)[1:-2], quote(written)[:-3]}
    texts = [*show(report), *recorded.shown(), *records.lines]
    assert [text for text in texts if any(each in text for each in forms)] == []
    assert is_failure(cast("Outcome", report.outcome))


@pytest.mark.parametrize("act", OWN, ids=lambda act: act.__name__)
@given(secret=SECRETS)
def test_what_the_author_says_is_masked(act: Callable[[str], object], secret: str) -> None:
    """An author's own text, and what the tool returns, is recorded without the secret as it is usually written."""
    records = Records()
    with records.attached():
        recorded = Recorded(make_function_tool(Annotated[str, Secret], lambda value: act(f"no [{tell(value)}] at all")))
        report = anyio.run(recorded.pipeline.report, Call("probe", {"value": secret}, "c1"))
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret), b64encode(secret.encode()).decode()}
    texts = [*show(report), *recorded.shown(), *records.lines]
    assert [text for text in texts if any(each in text for each in forms)] == []
    assert "no [[redacted]" in report.to_json()


@pytest.mark.parametrize("act", [*FOREIGN, *OWN], ids=lambda act: act.__name__)
async def test_a_failure_shows_no_secret(act: Callable[[str], object], records: Records) -> None:
    """However a model sends the call, and where the secret is a number, too."""
    await search(make_function_tool(Annotated[str, Secret], act_with(act)), CANARY, records)
    await search(make_function_tool(PydanticSecret[int], act_with(act)), NUMBER, records)


@pytest.mark.parametrize("act", FOREIGN, ids=lambda act: act.__name__)
def test_an_operator_may_want_the_texts_of_others(act: Callable[[str], object]) -> None:
    """``foreign_text="mask"`` logs and tells them as of any tool, without the secret as it is usually written."""
    records = Records()
    with records.attached():
        recorded = Recorded(
            make_function_tool(Annotated[str, Secret], lambda value: act(f"so it ends: {value}")), foreign_text="mask"
        )
        report = anyio.run(recorded.pipeline.report, Call("probe", {"value": "hunter2-x"}, "c1"))
    texts = [*show(report), *recorded.shown(), *records.lines]
    assert any("so it ends: [redacted]" in text for text in texts)
    assert [text for text in texts if "hunter2" in text] == []


@pytest.mark.parametrize("stage", [Classify, Execute], ids=lambda stage: stage.__name__)
def test_foreign_text_is_one_of_two_words(stage: Callable[..., object]) -> None:
    """Another word is refused at once."""
    with pytest.raises(SetupError, match=r"`foreign_text` must be 'withhold' or 'mask', not 'show'"):
        stage(foreign_text="show")


async def test_what_is_known_of_a_withheld_failure(records: Records) -> None:
    """Its class and its place are logged, its kind is told, and what the author himself said of it."""
    tool = make_function_tool(Annotated[str, Secret], act_with(crash))
    await standard(_one(tool)).call("probe", {"value": CANARY})
    logged = "".join(records.lines)
    assert "RuntimeError: [withheld]" in logged
    assert "KeyError: [withheld]" in logged
    assert "in crash" in logged
    told = render(
        await standard(_one(make_function_tool(Annotated[str, Secret], reveal_as))).call("probe", {"value": "x"})
    )
    assert told == "Error: Not found."
    for act, line in ((lose, "transient: ConnectionError (call"), (fail, "execution: ToolFailed: 'no card' (call")):
        tool = make_function_tool(Annotated[str, Secret], partial(act_on, act, "no card"))
        await standard(_one(tool), attempts=1).call("probe", {"value": CANARY})
        assert line in "".join(records.lines)


def act_no_card(act: Callable[[str], object]) -> Callable[[Any], object]:
    """The act of a tool that does it with a text of its own."""
    return lambda _: act("no card")


def answer_with(value: object) -> Callable[[Any], object]:
    """The act of a tool that returns one value."""
    return lambda _: value


# A secret, what a tool returns of it, and what is another value.
VALUES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "a number": (
        4821,
        [4821, "4821", 4821.0, Decimal("4821.00"), " 4821 "],
        [48211, "14821", 482, "x4821", True, None, "PIN 4821"],
    ),
    "a digit": (7, [], [7, "7", 7.0, 77, {"7": 7}]),
    "a text of a number": ("04821", [4821, "04821", Decimal(4821), 4821.0, "4821"], [48210]),
    "a float": (12.5, [12.5, "12.5", Decimal("12.50"), "1.25e1"], [12, 125]),
    "a short text": ("ab", ["ab", {"ab": 1}, {"a": ["ab"]}, " ab ", Key("ab")], ["abc", {"cab": "a b"}]),
    "a key": (4821, [{"4821": 1}, {4821: 1}, [{"a": {"4821": {}}}]], [{"x4821": 1}]),
    "a long text": ("hunter2-x", ["as hunter2-x", {"is hunter2-x": 1}, Key("hunter2-x"), b"hunter2-x"], ["hunter2"]),
    "a UUID": (str(UUID(int=7)), [UUID(int=7), UUID(int=7).hex, f"id {UUID(int=7)}"], [UUID(int=8)]),
    "a date": ("2026-11-23", [date(2026, 11, 23), "on 2026-11-23"], [date(2026, 11, 24)]),
}


@pytest.mark.parametrize("shape", VALUES)
async def test_a_returned_value_is_masked_by_value(shape: str) -> None:
    """A scalar or a key that is the secret is masked in each type, in span, journal, event, report, pickle and row."""
    secret, masked, kept = VALUES[shape]
    plain = {"true": "yes", "seven": 7, "none": None, "on": True}
    hint: Any = UUID if "UUID" in shape else cast("Any", type(secret))
    for value in [*masked, *kept]:
        tool = make_function_tool(Annotated[hint, Secret], partial(give, {"value": value, "plain": plain}))
        recorded = Recorded(tool)
        report = await recorded.pipeline.report(Call("probe", {"value": secret}, "c1"))
        (span,) = [each for each in recorded.exported.spans if each.parent is None]
        texts = [
            str((span.attributes or {})["gen_ai.tool.call.result"]),
            json.dumps(json.loads(report.to_json())["value"]),
            next(each.data["text"] for each in events_of(report) if each.name == "tool.result"),
            json.dumps(pickle.loads(pickle.dumps(report)).outcome.unwrap()),
            json.dumps(build_row(CallLine(1, "c", "probe", report.call), report)["told"]),
        ]
        for text in texts:
            assert ("[redacted]" in text) is (value in masked and value not in kept), text
        assert json.loads(report.to_json())["value"]["plain"] == plain
        assert "<Success>" in repr(report)


@pytest.mark.parametrize("shape", SHAPES)
async def test_each_declaration_keeps_its_secret(shape: str, records: Records) -> None:
    """A secret is kept in each form of declaration, however a model sends it."""
    annotation, value = SHAPES[shape]
    tool = make_function_tool(annotation, act_with(crash))
    assert tool.parameters.compile()
    assert tool.parameters.secrets is not None
    await search(tool, value, records)


@pytest.mark.parametrize("shape", SCHEMAS)
async def test_each_schema_keeps_its_secret(shape: str, records: Records) -> None:
    """A secret is kept in each form that a schema may have."""
    schema, value = SCHEMAS[shape]
    await search(make_schema_tool(schema, act_with(crash)), value, records)


@pytest.mark.parametrize("shape", [each for each in SHAPES if "validator" not in each and "several" not in each])
async def test_the_tool_gets_the_secret(shape: str) -> None:
    """What the tool gets is what was sent, and not what stands for it."""
    annotation, value = SHAPES[shape]
    got: list[str] = []
    outcome = await standard(_one(make_function_tool(annotation, lambda each: got.append(tell(each))))).call(
        "probe", {"value": value}
    )
    assert type(outcome) is Success
    assert CANARY in got[0] or DIGITS in got[0]


def _one(tool: Tool[..., Any]) -> ToolRegistry:
    tools = ToolRegistry()
    tools.register(tool)
    return tools


async def test_a_caller_may_pass_secret_types() -> None:
    """``pipeline.run`` hands on pydantic's secrets as they are, also those in a model of the caller's."""
    tools = ToolRegistry()
    got: list[str] = []

    @tools.tool(effect="read")
    async def login(key: SecretStr, account: Account, keys: list[SecretBytes]) -> None:
        got.append(key.get_secret_value() + account.token.get_secret_value() + str(keys[0].get_secret_value()))

    account = Account(token=SecretStr("b"), logins=[Login(password="c")])
    outcome = await standard(tools).run(login, key=SecretStr("a"), account=account, keys=[SecretBytes(b"d")])
    assert type(outcome) is Success
    assert got == ["ab" + str(b"d")]


@dataclass
class Wallet:
    token: SecretStr
    cards: list[SecretStr]


@attrs.frozen
class Purse:
    token: SecretStr
    cards: list[SecretStr]


class Safe(BaseModel):
    token: SecretStr
    cards: list[SecretStr]


class Box(BaseModel):
    token: str
    cards: Mapping[str, Wallet]


OPENED = {"token": "a", "cards": ["b"]}
HOLDERS: dict[str, tuple[Any, Any]] = {
    **{each.__name__: (each(token=SecretStr("a"), cards=[SecretStr("b")]), OPENED) for each in (Wallet, Purse, Safe)},
    "a holder of holders": (Box(token="t", cards={"w": Wallet(SecretStr("a"), [SecretStr("b")])}), {
        "token": "t", "cards": {"w": OPENED},
    }),
    "a list": ([Safe(token=SecretStr("a"), cards=[]), Purse(SecretStr("b"), [])], [
        {"token": "a", "cards": []}, {"token": "b", "cards": []},
    ]),
    "a tuple in a dict": ({"pair": (SecretStr("a"), SecretBytes(b"b"), 3)}, {"pair": ("a", b"b", 3)}),
}  # fmt: skip


@pytest.mark.parametrize(("held", "opened"), HOLDERS.values(), ids=HOLDERS.keys())
def test_secret_types_are_opened_for_a_schema(held: Any, opened: Any) -> None:
    """A tool of a JSON Schema gets what a caller's secret types hold, and no asterisks; a model as an object."""
    schema: Any = {"type": "object", "properties": {"x": {"writeOnly": True}, "y": {"type": "string"}}}
    made = Tool.from_schema(name="probe", parameters=schema, handler=print)
    guard = made.parameters.compile() and made.parameters.secrets
    assert guard is not None

    def hand_on(arguments: object) -> Any:
        return arguments

    assert guard.guard(hand_on)({"x": held, "y": "plain"}) == {"x": opened, "y": "plain"}


REPAIRED: dict[str, tuple[Any, Any, tuple[Repair, ...]]] = {
    "beside a secret": (
        str,
        {"value": CANARY, "plain": 3.5},
        (Repair("plain", "text_of_number", "[redacted]", "3.5"),),
    ),
    "the secret": (
        int,
        {"value": DIGITS, "plain": "p"},
        (Repair("value", "number_text", "[redacted]", "[redacted]"),),
    ),
    "its name": (str, {"Value": CANARY, "plain": "p"}, (Repair("Value", "parameter_name", "Value", "value"),)),
}


@pytest.mark.parametrize(("hint", "sent", "repairs"), REPAIRED.values(), ids=REPAIRED.keys())
def test_a_repair_is_recorded_without_the_secret(hint: Any, sent: Any, repairs: tuple[Repair, ...]) -> None:
    """Where, by which rule, and what it made of a value that is no secret."""
    tool = make_function_tool(Annotated[hint, Secret], echo)
    verdict: Any = Validate()(Call("probe", sent).resolved(tool))
    assert verdict.repairs == repairs


def test_names_that_are_secret_are_numbered() -> None:
    """So that each of them is seen, and their number."""
    tool = make_function_tool(dict[Annotated[str, Secret], int], echo)
    call = Call("probe", {"value": {CANARY: 1, "other": 2}, "plain": "p"})
    redacted = {"[redacted] 1": "[redacted]", "[redacted] 2": "[redacted]"}
    assert standard(_one(tool)).redact(call).arguments == {"value": redacted, "plain": "p"}


@pytest.mark.parametrize("traced", [True, False])
async def test_a_stage_before_the_tool_is_found(traced: bool, records: Records) -> None:
    """A secret is kept as well where the tool is found behind another stage, and where nobody records the call."""

    async def pass_on(call: Call, call_next: Handler[Call]) -> Outcome:
        return await call_next(call)

    pipeline = standard(_one(make_function_tool(Annotated[str, Secret], act_with(crash)))).before("resolve", pass_on)
    pipeline = pipeline if traced else pipeline.without("trace")
    for outcome in (
        await pipeline.call("probe", {"value": CANARY}),
        (await pipeline.report(Call("probe", {"value": CANARY}))).outcome,
    ):
        assert leaks(iter([repr(outcome), *records.lines])) == []
    assert records.lines


async def test_progress_shows_no_secret() -> None:
    """What a tool says of its progress is recorded without its secret."""
    tools = ToolRegistry()

    @tools.tool(effect="read", context=True)
    async def login(context: ToolContext, password: Annotated[str, Secret]) -> None:
        context.progress(1, message=f"as {password}")

    report = await standard(tools).report(Call("login", {"password": CANARY}))
    assert report.progress == [Progress(1, None, f"as {CANARY}")]
    assert leaks(iter([repr(report), repr(list(events_of(report)))])) == []


def nest(value: Any) -> Iterator[tuple[str, Any]]:
    """A batch with a call of the tool, in the ways in which models write it."""
    for key, name in (("args", "probe"), ("arguments", "probe"), ("args", "prob"), ("parameters", "closed")):
        inner = {"tool": name, key: {"value": value}}
        yield "batch", {"calls": [{"tool": "other", "args": {"to": "ada-lovelace"}}, inner]}
        yield "batch", json.dumps({"calls": [inner]})
        yield "batch", {"calls": json.dumps([inner])}
        yield "batch", {"calls": [{"name": name, key: json.dumps({"value": value})}]}
        yield "invalid", {"requested_tool": name, key: {"value": value}}


@pytest.mark.parametrize("act", [crash, fail, echo], ids=lambda act: act.__name__)
async def test_a_batch_shows_no_secret(act: Callable[[Any], object], records: Records) -> None:
    """The arguments of a batch hold those of its calls, and are recorded without the secrets of their tools."""
    recorded = Recorded(make_function_tool(Annotated[str, Secret], act_with(act)))
    (tools,) = recorded.pipeline.registries
    assert isinstance(tools, ToolRegistry)
    tools.register(a_tool("other"))
    install(tools, recorded.pipeline)
    for name, arguments in nest(CANARY):
        report = await recorded.pipeline.report(Call(name, arguments))
        assert leaks(show(report)) == [], (name, arguments)
    assert leaks(recorded.shown()) == []
    assert leaks(iter(records.lines)) == []
    assert "ada-lovelace" in "".join(recorded.shown())  # what is not secret is there


async def test_a_turn_shows_no_secret() -> None:
    """The records of a turn have the arguments without secrets, and so has all that is shown of the turn."""
    pipeline = Recorded(make_function_tool(Annotated[str, Secret], act_with(crash))).pipeline

    async def answer_nothing(answered: object, guidance: str, hints: object, /) -> list[Call]:
        return []

    calls = [Call("probe", {"value": CANARY}, "a"), Call("prob", {"value": CANARY}, "b")]
    turn = await run_turn(answer_nothing, calls, pipeline)
    assert leaks(iter([repr(turn)])) == []
    assert turn.records[0].input_params == {"value": "[redacted]"}


async def test_a_loop_guard_shows_no_secret() -> None:
    """The refusal of a repeated call quotes its arguments without the secret."""
    pipeline = standard(_one(make_function_tool(Annotated[str, Secret], act_with(echo)))).before("retry", LoopGuard())
    texts: list[str] = []
    for _ in range(10):
        outcome = await pipeline.call("probe", {"value": CANARY})
        texts += [render(outcome)] if is_failure(outcome) else []
    assert texts
    assert leaks(iter(texts)) == []
    assert "[redacted]" in texts[0]


def test_defaults_of_secrets_are_not_shown() -> None:
    """A model sees neither the default nor an example of a secret, also where it stands in the default of a model."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def login(
        password: Annotated[str, Secret, Field(examples=[CANARY])] = CANARY,
        first: Login = Login(password=CANARY),  # noqa: B008  # as an author writes it
        user: str = "ada",
    ) -> None:
        """Log in."""

    definition = json.dumps(login.definition())
    assert leaks(iter([definition])) == []
    assert '"default": "ada"' in definition


def test_what_is_not_secret_is_recorded() -> None:
    """A tool without secrets is recorded as it was, and of one with secrets all that is declared and not secret."""
    tool = make_function_tool(Annotated[str, Secret], act_with(echo))
    pipeline = standard(_one(tool))
    call = Call("probe", {"value": CANARY, "plain": "hello"})
    assert pipeline.redact(call).arguments == {"value": "[redacted]", "plain": "hello"}
    text = Call("probe", json.dumps(call.arguments))
    assert pipeline.redact(text).arguments == '{"value": "[redacted]", "plain": "hello"}'
    foreign = Call("probe", '{"value": "x", "plain": "\u00e9t\u00e9"}')
    assert pipeline.redact(foreign).arguments == '{"value": "[redacted]", "plain": "\u00e9t\u00e9"}'
    other = Call("probe", {"value": "hello"})
    assert standard(_one(make_function_tool(str, echo))).redact(other) is other


REDACTED: Mapping[str, Any] = {"to": "ada", "cards": [{"number": "card 4111"}, {"number": "card 4222"}], "count": 2}


def redact_numbers(path: str, value: object) -> object:
    return "#" if path.endswith((".number", "token")) else value


async def test_redact_sees_every_value_that_is_recorded() -> None:
    """The hook gets paths of arguments and of results; what it returns is in spans, reports, rows and events."""
    tools = ToolRegistry()

    class Result(BaseModel):
        token: str
        count: int

    @tools.tool(effect="read")
    async def pay(to: str, cards: list[dict[str, str]], count: int) -> Result:
        assert cards[0]["number"] == "card 4111"
        return Result(token="card 4333", count=count)

    exported, reports = Exported(), list[CallReport]()
    trace = Trace(tracer_provider=exported.provider, content=True, redact=redact_numbers, sinks=[reports.append])
    pipeline = standard(tools).replace("trace", trace)
    sent = {**REDACTED, "cards": json.dumps(REDACTED["cards"])}
    for arguments in (REDACTED, json.dumps(REDACTED), sent):
        reports.append(await pipeline.report(Call("pay", arguments)))
    texts = [span.to_json() for span in exported.spans]
    for report in reports:
        texts += [repr(report), repr(report.call.arguments), repr(report.repairs), repr(list(events_of(report)))]
        texts.append(encode_row(build_row(CallLine(1, "c", "pay", report.call), report)).decode())
        assert type(report.outcome) is Success
    assert not [text for text in texts for number in ("card 4111", "card 4222", "card 4333") if number in text]
    assert reports[0].call.arguments == {
        "to": "ada",
        "cards": [{"number": "#"}, {"number": "#"}],
        "count": 2,
    }
    call = next(span for span in exported.spans if span.parent is None)
    assert json.loads(str((call.attributes or {})["gen_ai.tool.call.result"])) == {"token": "#", "count": 2}


@pytest.mark.parametrize("sent", [{"a": [1, "x"]}, [1], "x", '{"a": 1}', '[{"a": "x"}]', 5, None])
async def test_redact_by_the_path_of_a_whole(sent: Any) -> None:
    """A hook that withholds one parameter withholds it whatever stands there, also as text."""
    tools = _one(Tool.from_schema(name="probe", parameters=None, handler=nothing, effect="read"))
    pipeline = standard(tools, redact=lambda path, value: "#" if path == "value" else value)
    assert pipeline.redact(Call("probe", {"value": sent})).arguments == {"value": "#"}
    assert pipeline.redact(Call("probe", json.dumps({"value": sent}))).arguments == '{"value": "#"}'


@pytest.mark.parametrize("text", ["3.10", "1e400", "true", "'a'", "None", " [1", '"\u00e9"', "[", "{'a'"])
def test_redact_leaves_a_text_as_it_was_written(text: str) -> None:
    """Only text that holds an object or an array is read, so that the hook sees what is in it."""
    sent = {"a": text, "b": [text]}
    assert Redaction(None, redact_numbers).redact(sent) == sent
    held = {"a": '{"number": "card 4111", "plain": 3.5}'}
    assert Redaction(None, redact_numbers).redact(held) == {"a": '{"number": "#", "plain": 3.5}'}


async def test_redact_for_texts_only() -> None:
    """A hook that takes texts only is asked for each text, also for those in objects and in text that holds one."""

    def redact(path: str, value: Any) -> object:
        return value.replace("4111", "#")

    tools = _one(Tool.from_schema(name="probe", parameters=None, handler=nothing, effect="read"))
    arguments = {"a": {"b": ["4111 x"]}, "c": "4111", "d": '{"e": "4111"}', "f": 4111}
    expected = {"a": {"b": ["# x"]}, "c": "#", "d": '{"e": "#"}', "f": "[redacted]"}
    assert standard(tools, redact=redact).redact(Call("probe", arguments)).arguments == expected


async def test_redact_that_raises_withholds() -> None:
    """If the hook raises for a value, that value is withheld, and the outcome stays."""

    def redact(path: str, value: object) -> object:
        raise RuntimeError(path)

    tool = make_function_tool(str, lambda value: value)
    report = await standard(_one(tool), redact=redact).report(Call("probe", {"value": CANARY}))
    assert type(report.outcome) is Success
    assert report.call.arguments == {"value": "[redacted]"}


class Unreadable(Mapping[str, object]):
    """A mapping of a caller's, which is broken."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise ValueError

    def __len__(self) -> int:
        return 1


LOOP: dict[str, object] = {"value": "a"}
LOOP["value"] = LOOP


@pytest.mark.parametrize("arguments", [Unreadable(), {"value": Unreadable()}, {"other": [Unreadable()]}])
@pytest.mark.parametrize("params", [None, Unreadable(), {"value": Unreadable()}, LOOP])
def test_what_cannot_be_read_withholds_every_text(arguments: Any, params: Any) -> None:
    """A secret may be in it, so nothing of the call is recorded, whether it was sent or a stage put it there."""
    parameters = make_function_tool(Annotated[str, Secret], lambda value: value).parameters
    assert parameters.schema
    guard = parameters.secrets
    assert guard is not None
    assert guard.make_mask(arguments, params)("a text") == "[redacted]"
    assert guard.make_mask({}, params or LOOP)("a text") == "[redacted]"
    assert guard.make_mask({"value": "hunter2"}, {"value": "hunter2"})("a text") == "a text"


def test_redact_must_be_callable() -> None:
    """Something else is refused at once."""
    with pytest.raises(SetupError, match="Trace: `redact` must be a plain function or None, not 'x'"):
        Trace(redact="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake that is tested


async def test_redact_sees_what_a_failure_and_progress_say() -> None:
    """The text of a failure and each message of progress are asked for, at their own paths, and nothing else shows."""
    tools = ToolRegistry()

    @tools.tool(context=True, effect="read")
    async def charge(context: ToolContext, pin: Annotated[str, Secret], card: str) -> str:
        """Charge a card."""
        context.progress(1, message=f"asks the bank about {card} with {pin}")
        raise ToolFailed(f"card {card} was refused with {pin}")

    del charge
    asked: dict[str, object] = {}

    def remember(path: str, value: object) -> object:
        asked[path] = value
        return value.replace("4111", "…") if isinstance(value, str) else value

    def fail(path: str, value: object) -> object:
        raise ValueError(value)

    for redact, texts in (
        (remember, ("asks the bank about … with [redacted]", "Error: card … was refused with [redacted]")),
        (fail, ("[redacted]", "[redacted]")),
    ):
        exported = Exported()
        with Events() as events:
            trace = Trace(tracer_provider=exported.provider, content=True, redact=redact, sinks=[events])
            pipeline = standard(tools).replace("trace", trace)
            report = await pipeline.report(Call("charge", {"card": "4111", "pin": "hunter2secret"}))
        heard = [event async for event in events]
        assert [event.data["message"] for event in heard if event.name == "tool.progress"] == [texts[0]]
        assert heard[-1].data["text"] == texts[1]
        assert [step.message for step in pickle.loads(pickle.dumps(report)).progress] == [texts[0]]
        assert [event.data for event in events_of(report)][-1]["text"] == texts[1]
        told = [span.attributes["toolcall.told"] for span in exported.spans if span.attributes and not span.parent]
        assert told == [texts[1]]
    assert asked["error"] == "Error: card 4111 was refused with [redacted]"
    assert asked["progress"] == "asks the bank about 4111 with [redacted]"


REPEATED: dict[str, Any] = {
    "another parameter": {"value": CANARY, "plain": f"https://ada:{quote(CANARY)}@host/"},
    "an undeclared name": {"value": CANARY, CANARY: 1},
    "a list under an undeclared name": {"value": CANARY, "plain": [{"a": [CANARY]}]},
    "in text": json.dumps({"value": CANARY, "plain": CANARY}),
    "in text, with a name": json.dumps({"value": CANARY, CANARY: CANARY}),
    "a secret of a wrong type": {"value": {"a": CANARY}, "plain": CANARY},
}


@pytest.mark.parametrize("arguments", REPEATED.values(), ids=REPEATED)
async def test_a_secret_that_is_sent_again_elsewhere(arguments: Any, records: Records) -> None:
    """A model may send the password also in a URL or as a name, where nothing declares it: it is masked there, too."""
    recorded = Recorded(make_function_tool(Annotated[str, Secret], act_with(fail)))
    call = Call("probe", arguments, "c1")
    report = await recorded.pipeline.report(call)
    assert leaks(show(report)) == []
    assert leaks(iter(records.lines)) == []
    assert leaks(recorded.shown()) == []
    assert "plain" not in arguments or "plain" in repr(report.call.arguments)


@pytest.mark.parametrize("act", [*FOREIGN, *OWN], ids=lambda act: act.__name__)
async def test_no_store_or_file_keeps_a_secret(act: Callable[[Any], object], tmp_path: Path) -> None:
    """Ledger, approval, journal and audit keep answers, reasons and calls without the secret."""
    tools = ToolRegistry()
    tools.register(attrs.evolve(make_function_tool(Annotated[str, Secret], act_with(act)), effect="mutating"))
    store = SQLite(tmp_path / "store.db")
    pipeline = standard(tools, store=store, journal=tmp_path / "calls.db")
    asked = Approve(store, needs=lambda call: call.params["plain"] == "ask" and f"to use {call.params['value']}")
    audit = Audit(SQLite(tmp_path / "audit.db"), content=True)
    async with pipeline.before("ledger", audit).before("ledger", asked) as opened:
        for plain in ("x", "ask"):
            await opened.call("probe", {"value": CANARY, "plain": plain}, id=f"c{plain}", conversation="talk")
        again = await opened.call("probe", {"value": CANARY, "plain": "x"}, id="cx", conversation="talk")
        (request,) = await Approvals(store).pending()
    assert leaks(iter([repr(request)])) == []
    assert request.reason == "to use [redacted]"
    kept = [each.read_bytes().decode("latin-1") for each in tmp_path.iterdir()]  # noqa: ASYNC240  # nothing else runs
    assert len(kept) >= 3
    assert leaks(iter(kept)) == []
    if act is echo:
        assert again.failure().kind == "outcome_unknown"  # an answer with a mask would be another one


SECRET = "hunter2-of-mine"
HOLDERS_OF_SECRETS: dict[str, Callable[[], object]] = {
    "Audit": lambda: Audit(Memory(), secret=SECRET.encode()),
    "Ledger": lambda: Ledger(Memory(), secret=SECRET.encode()),
    "Approvals": lambda: Approvals(Memory(), secret=SECRET.encode()),
    "a pipeline": lambda: standard(ToolRegistry()).before("retry", Ledger(Memory(), secret=SECRET.encode())),
    "Redis": lambda: Redis(f"redis://ada:{SECRET}@host"),
    "Postgres": lambda: Postgres(f"postgres://ada:{SECRET}@host/db"),
    "Postgres by words": lambda: Postgres(f"host=h user=ada password={SECRET}"),
    "Call": lambda: Call("probe", {"value": SECRET}),
    "ResolvedCall": lambda: Call("probe", {"value": SECRET}).resolved(make_function_tool(str, echo)),
    "ValidCall": lambda: Validate()(
        Call("probe", {"value": SECRET}).resolved(make_function_tool(Annotated[str, Secret], echo))
    ),
    "a Tool with a default": lambda: make_default_tool(SECRET),
}


def make_default_tool(secret: str) -> object:
    async def probe(value: Annotated[str, Secret] = secret) -> None:
        """Take a secret."""

    probe.__annotations__["value"] = Annotated[str, Secret]
    tool = ToolRegistry().tool(effect="read")(probe)
    return tool, tool.parameters, tool.definition()


@pytest.mark.parametrize("name", HOLDERS_OF_SECRETS)
def test_no_repr_shows_a_secret(name: str) -> None:
    """What holds a secret, of a call or of its own, has it neither in its repr nor in that of one around it."""
    held = HOLDERS_OF_SECRETS[name]()
    assert SECRET not in repr(held) + repr([held]) + str(held)


@pytest.mark.parametrize("make", [Audit, Ledger, Approvals], ids=lambda make: make.__name__)
@pytest.mark.parametrize("secret", [SECRET, SECRET.encode() * 10, bytearray(SECRET.encode())])
def test_a_wrong_secret_is_not_quoted(make: Callable[..., object], secret: Any) -> None:
    """The refusal of a key for digests says its type and its length."""
    with pytest.raises(
        SetupError, match=r"`secret` must be at most 64 bytes, not (a str|150 bytes|a bytearray)"
    ) as caught:
        make(Memory(), secret=secret)
    assert SECRET not in str(caught.value)


async def test_a_typed_answer_with_a_secret_is_not_kept() -> None:
    """With a mask it would be another answer; one without the secret comes back as its type."""
    tools = ToolRegistry()

    @tools.tool
    async def probe(value: Annotated[str, Secret], plain: str = "x") -> Card:
        return Card(1, value if plain == "x" else plain)

    async with standard(tools, store=Memory()) as pipeline:
        found = [
            await pipeline.call("probe", {"value": CANARY, "plain": plain}, id=plain, conversation="talk")
            for plain in ("x", "x", "y", "y")
        ]
    assert found == [
        Success(Card(1, CANARY)),
        Failure(OutcomeUnknown(Transient(landed="yes"))),
        Success(Card(1, "y")),
        Success(Card(1, "y")),
    ]
