"""No leak: what is planted in exceptions, arguments and settings is in nothing that a model, a trace or a log shows."""

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
from test_messages_cases import PROFILES, VERBOSITIES

from middlewares import Retry, Trace, standard
from pipeline import Call, Outcome, Pipeline, Tool, ToolCallError, ToolFailed, ToolRegistry, is_failure, raise_for_error
from pipeline.adapters import anthropic, openai
from pipeline.messages import Conversation, render
from support import Exported

RAISED, SENT, DEPS, WHO, ENVIRONMENT = (f"canary-{name}-7f3a" for name in ("raised", "sent", "deps", "who", "env"))
CANARIES = (RAISED, SENT, DEPS, WHO, ENVIRONMENT)


@pytest.fixture(autouse=True, scope="module")
def _environment() -> Iterator[None]:
    os.environ["TOOLCALL_TEST_CANARY"] = ENVIRONMENT
    yield
    del os.environ["TOOLCALL_TEST_CANARY"]


# --- what is raised ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Response:
    status_code: int
    headers: Mapping[str, str] = {"Retry-After": "0", "X-Token": RAISED}
    text: str = RAISED


class HttpError(Exception):
    """As the usual clients raise them."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} for https://{RAISED}/")
        self.response = Response(status)


class Shown(Exception):
    """Shows more than it should, however it is looked at."""

    def __repr__(self) -> str:
        return RAISED

    def __str__(self) -> str:
        return RAISED


class Account(BaseModel):
    token: int


def refused() -> Exception:
    """What pydantic raises inside of a body: it repeats what it was given."""
    try:
        TypeAdapter(Account).validate_python({"token": RAISED})
    except ValidationError as exc:
        return exc
    raise AssertionError("pydantic took it")


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
    "ValidationError": refused,
    "Shown": Shown,
    "ToolFailed": lambda: ToolFailed("It did not work."),
    "ToolFailed, set-up": lambda: ToolFailed("Log in first.", kind="configuration"),
    "ToolFailed, transient": lambda: ToolFailed("Later.", kind="transient"),
    "ToolFailed, question": lambda: ToolFailed("To whom?", kind="needs_input", parameter="to"),
    "a group of one": partial(ExceptionGroup, RAISED, [ConnectionError(RAISED)]),
    "a group": partial(ExceptionGroup, RAISED, [ValueError(RAISED), KeyError(RAISED)]),
    **{f"HTTP {status}": partial(HttpError, status) for status in (400, 401, 403, 404, 409, 429, 500, 503)},
}


def planted(name: str, deps: object) -> Exception:
    """An exception with the canaries in all that hangs on it."""
    exc = EXCEPTIONS[name]()
    exc.__cause__ = ValueError(RAISED)
    exc.__context__ = KeyError(RAISED)
    exc.add_note(f"with {RAISED}")
    vars(exc).update(environment=dict(os.environ), settings=deps, token=RAISED)
    return exc


@attrs.frozen
class Settings:
    """The caller's own object, which shows its secret."""

    api_key: str = DEPS


class Mode(Enum):
    READ = "read"


class Filter(BaseModel):
    tags: list[int]


def pipeline_of(exported: Exported, raised: str, effect: Any) -> Pipeline:
    """A default set-up, its tools by name: a function with many types, a schema, and one that is closed."""
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
        raise planted(raised, context.deps)

    async def raw(**_: object) -> str:
        raise planted(raised, None)

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
    waiting = Retry(first_delay=0, sleep=_at_once)
    return standard(tools).replace("trace", Trace(tracer_provider=exported.provider)).replace("retry", waiting)


async def _at_once(_seconds: float) -> None:
    """Nobody waits in a test."""


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
    """Keeps every record as a file would have it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        extra = {
            key: value for key, value in vars(record).items() if key not in ("exc_info", "exc_text", "args", "msg")
        }
        self.lines.append(f"{self.format(record)} {extra}" if record.exc_info is None else str(extra))


def renders(call: Call, outcome: Outcome[Any]) -> Iterator[str]:
    """All that is shown of an outcome to anybody but its developer's log."""
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


def canaries_in(texts: Iterator[str] | list[str]) -> set[tuple[str, str]]:
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
    """Every text, message, repr and span is free of every canary; a log of all that was sent and of all settings."""
    exported, records = Exported(), Records()
    logger = logging.getLogger("toolcall_pipeline")
    level = logger.level
    logger.addHandler(records)
    logger.setLevel(logging.DEBUG)
    try:
        call = Call(name, arguments, "call_1", principal=WHO, deps=Settings(), finish_reason=reason)
        outcome = await pipeline_of(exported, raised, effect)(call)
    finally:
        logger.removeHandler(records)
        logger.setLevel(level)
    assert canaries_in(renders(call, outcome)) == set()
    assert exported.spans
    assert canaries_in([span.to_json() for span in exported.spans]) == set()
    # The log is the only home of a private cause: what was raised may stand there, and nothing else.
    assert {canary for canary, _ in canaries_in(records.lines)} <= {RAISED}


@pytest.mark.parametrize("raised", EXCEPTIONS)
async def test_each_exception_is_raised_and_told_without_its_secret(raised: str) -> None:
    """The property above does reach the body: each of its exceptions becomes a failure with a text of its kind."""
    exported = Exported()
    call = Call("act", {"name": SENT}, principal=WHO, deps=Settings())
    report = await pipeline_of(exported, raised, "read").report(call)
    outcome = report.outcome
    assert outcome is not None
    assert is_failure(outcome)
    # A report is its developer's, and shows what was sent by whom; of what was raised and of settings it shows nothing.
    assert {canary for canary, _ in canaries_in([repr(report)])} <= {SENT, WHO}
    assert "validation" not in outcome.failure().kind
    assert canaries_in(renders(call, outcome)) == set()
    assert canaries_in([span.to_json() for span in exported.spans]) == set()


def test_the_search_finds_what_is_planted() -> None:
    """The test can fail: a text that holds a canary is found."""
    assert canaries_in([f"a {RAISED} b", "c"]) == {(RAISED, f"a {RAISED} b")}
    text = "".join(str(value) for value in vars(planted("ValueError", Settings())).values())
    assert DEPS in text
    assert ENVIRONMENT in text
