"""No leaks: secrets in exceptions, arguments and settings are in no text, span, ``repr`` or pickle."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from enum import Enum
from functools import partial
from typing import Any, Literal
from uuid import UUID

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from error_cases import PROFILES, VERBOSITIES
from support import Exported
from toolcall_pipeline import (
    Call,
    Outcome,
    Pipeline,
    Tool,
    ToolCallError,
    ToolFailed,
    ToolRegistry,
    is_failure,
    raise_for_error,
)
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.messages import Conversation, render
from toolcall_pipeline.middlewares import Retry, Trace, standard

RAISED, SENT, DEPS, WHO, ENVIRONMENT = (f"canary-{name}-7f3a" for name in ("raised", "sent", "deps", "who", "env"))
CANARIES = (RAISED, SENT, DEPS, WHO, ENVIRONMENT)


@pytest.fixture(autouse=True, scope="module")
def _environment() -> Iterator[None]:
    os.environ["TOOLCALL_TEST_CANARY"] = ENVIRONMENT
    yield
    del os.environ["TOOLCALL_TEST_CANARY"]


@attrs.frozen
class Response:
    status_code: int
    headers: Mapping[str, str] = {"Retry-After": "0", "X-Token": RAISED}
    text: str = RAISED


class HttpError(Exception):
    """As the usual HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} for https://{RAISED}/")
        self.response = Response(status)


class Talkative(Exception):
    """Has the secret in its text and its ``repr``."""

    def __repr__(self) -> str:
        return RAISED

    def __str__(self) -> str:
        return RAISED


class Account(BaseModel):
    token: int


def make_validation_error() -> Exception:
    """What pydantic raises in a tool's body: it repeats the value that it refuses."""
    try:
        TypeAdapter(Account).validate_python({"token": RAISED})
    except ValidationError as exc:
        return exc
    raise AssertionError("pydantic accepted it")


EXCEPTIONS: dict[str, Callable[[], Exception]] = {
    "ValueError": lambda: ValueError(f"invalid parameter: {RAISED}"),
    "KeyError": lambda: KeyError(RAISED),
    "RuntimeError": lambda: RuntimeError({"password": RAISED}),
    "ConnectionError": lambda: ConnectionError(f"postgres://ada:{RAISED}@db/main"),
    "TimeoutError": lambda: TimeoutError(RAISED),
    "PermissionError": lambda: PermissionError(13, "Permission denied", f"/home/{RAISED}/a.txt"),
    "FileNotFoundError": lambda: FileNotFoundError(2, "No such file or directory", f"/home/{RAISED}/a.txt"),
    "OSError": lambda: OSError(RAISED),
    "StopIteration": lambda: StopIteration(RAISED),
    "UnicodeError": lambda: UnicodeDecodeError("utf-8", RAISED.encode(), 0, 1, RAISED),
    "ValidationError": make_validation_error,
    "Talkative": Talkative,
    "ToolFailed": lambda: ToolFailed("It did not work."),
    "ToolFailed, set-up": lambda: ToolFailed("Log in first.", kind="configuration"),
    "ToolFailed, transient": lambda: ToolFailed("Later.", kind="transient"),
    "ToolFailed, question": lambda: ToolFailed("To whom?", kind="needs_input", parameter="to"),
    "a group of one": partial(ExceptionGroup, RAISED, [ConnectionError(RAISED)]),
    "a group": partial(ExceptionGroup, RAISED, [ValueError(RAISED), KeyError(RAISED)]),
    **{f"HTTP {status}": partial(HttpError, status) for status in (400, 401, 403, 404, 409, 429, 500, 503)},
}


def plant(name: str, deps: object) -> Exception:
    """Make an exception with canaries in its cause, context, notes and attributes."""
    exc = EXCEPTIONS[name]()
    exc.__cause__ = ValueError(RAISED)
    exc.__context__ = KeyError(RAISED)
    exc.add_note(f"with {RAISED}")
    vars(exc).update(environment=dict(os.environ), settings=deps, token=RAISED)
    return exc


@attrs.frozen
class Settings:
    """An object of the caller, with its secret in its ``repr``."""

    api_key: str = DEPS


class Mode(Enum):
    READ = "read"


class Filter(BaseModel):
    tags: list[int]


def build_pipeline(exported: Exported, raised: str, effect: Any) -> Pipeline:
    """The standard stages over three tools: a function with many types, a schema, and one that is disabled."""
    tools = ToolRegistry()

    @tools.tool(effect=effect, context=True)
    async def act(
        context: Any,
        name: str,
        count: int = 1,
        day: date | None = None,
        mode: Mode = Mode.READ,
        kind: Literal["a", "b"] = "a",
        key: UUID | None = None,
        filter: Filter | None = None,  # noqa: A002  # as models know it
        either: int | list[bool] = 1,
    ) -> str:
        """Act."""
        raise plant(raised, context.deps)

    async def raw(**_: object) -> str:
        raise plant(raised, None)

    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 3, "pattern": "^a"},
            "mode": {"enum": ["read", "write"]},
            "ids": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            "either": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    tools.register(Tool.from_schema(name="raw", parameters=schema, handler=raw, effect=effect))
    tools.register(Tool.from_schema(name="closed", parameters=None, handler=raw, effect=effect))
    tools.disable("closed")
    impatient = Retry(first_delay=0, sleep=_skip)
    return standard(tools).replace("trace", Trace(tracer_provider=exported.provider)).replace("retry", impatient)


async def _skip(_seconds: float) -> None:
    """Do not wait."""


SECRETS: Any = st.recursive(
    st.just(SENT) | st.sampled_from([1, None, True, "a"]),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
NAMES = ("name", "count", "day", "mode", "kind", "key", "filter", "either", "ids", "nmae")
ARGUMENTS: Any = st.one_of(
    st.just({"name": "a"}),
    st.dictionaries(st.sampled_from(NAMES), SECRETS, max_size=4),
    SECRETS,
    st.sampled_from(
        [f'{{"name": "{SENT}', f'{{"name": {SENT}}}', f'["{SENT}"]', f'"{SENT}"', SENT, f'{{"n": "{SENT}",}}']
    ),
)


class Records(logging.Handler):
    """Keeps every record as a log file would have it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        extra = {
            key: value for key, value in vars(record).items() if key not in ("exc_info", "exc_text", "args", "msg")
        }
        self.lines.append(f"{self.format(record)} {extra}" if record.exc_info is None else str(extra))


def show(call: Call, outcome: Outcome[Any]) -> Iterator[str]:
    """Every way in which an outcome is shown, except in the log of the developer."""
    yield from (repr(outcome), str(outcome), render(outcome))
    yield from (str(openai.message(call, outcome)), str(openai.message(call, outcome, api="responses")))
    yield str(anthropic.message(call, outcome))
    if not is_failure(outcome):
        return
    error = outcome.failure()
    yield from (repr(error), str(error), repr(pickle.loads(pickle.dumps(error))))
    for profile in PROFILES:
        for verbosity in VERBOSITIES:
            yield render(error, profile=profile, verbosity=verbosity)
            yield render(error, profile=profile, verbosity=verbosity, tool="gmail_send", previous=error)
            yield render(outcome, profile=profile, verbosity=verbosity, tool=call.name)
        conversation = Conversation(profile=profile)
        yield from (conversation.render(call, outcome), conversation.render(call, outcome))
        yield repr(conversation)
    templates = {f"{error.kind}": "{tool} {parameter} {service} {expected} {got} {question} {message} {text} {reason}"}
    yield render(error, templates=templates)
    try:
        raise_for_error(outcome)
    except ToolCallError as raised:
        yield from (repr(raised), str(raised), repr(raised.args))


def find_canaries(texts: Iterator[str] | list[str]) -> set[tuple[str, str]]:
    return {(canary, text) for text in texts for canary in CANARIES if canary in text}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(["act", "raw", "act", "raw", "closed", "acct", "functions.act", ""]),
    arguments=ARGUMENTS,
    raised=st.sampled_from(sorted(EXCEPTIONS)),
    effect=st.sampled_from(["read", "mutating"]),
    reason=st.sampled_from([None, "length"]),
)
async def test_nothing_planted_is_shown(
    name: str, arguments: Any, raised: str, effect: str, reason: str | None
) -> None:
    """No text, message, ``repr`` or span holds a canary, and the log at most that of a raised exception."""
    exported, records = Exported(), Records()
    logger = logging.getLogger("toolcall_pipeline")
    level = logger.level
    logger.addHandler(records)
    logger.setLevel(logging.DEBUG)
    try:
        call = Call(name, arguments, "call_1", principal=WHO, deps=Settings(), finish_reason=reason)
        outcome = await build_pipeline(exported, raised, effect)(call)
    finally:
        logger.removeHandler(records)
        logger.setLevel(level)
    assert find_canaries(show(call, outcome)) == set()
    assert exported.spans
    assert find_canaries([span.to_json() for span in exported.spans]) == set()
    # The log is the only place for a private cause.
    assert {canary for canary, _ in find_canaries(records.lines)} <= {RAISED}


@pytest.mark.parametrize("raised", EXCEPTIONS)
async def test_each_exception_is_reached_and_stays_private(raised: str) -> None:
    """Each exception of the test above does reach the pipeline, and becomes a failure without its secret."""
    exported = Exported()
    call = Call("act", {"name": SENT}, principal=WHO, deps=Settings())
    report = await build_pipeline(exported, raised, "read").report(call)
    outcome = report.outcome
    assert outcome is not None
    assert is_failure(outcome)
    # A report is for the developer: it shows the principal, but neither arguments, exception nor settings.
    assert {canary for canary, _ in find_canaries([repr(report)])} <= {WHO}
    assert "validation" not in outcome.failure().kind
    assert find_canaries(show(call, outcome)) == set()
    assert find_canaries([span.to_json() for span in exported.spans]) == set()


def test_the_search_finds_a_canary() -> None:
    """The tests above can fail: a canary in a text is found."""
    assert find_canaries([f"a {RAISED} b", "c"]) == {(RAISED, f"a {RAISED} b")}
    text = "".join(str(value) for value in vars(plant("ValueError", Settings())).values())
    assert DEPS in text
    assert ENVIRONMENT in text
