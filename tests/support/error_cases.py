"""Errors of every kind: an example of each, and as hypothesis makes them, with long, odd and hostile fields.

Every cause holds the secret ``hunter2``. A new kind of error is in both by its own example.
"""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from toolcall_pipeline import (
    Crashed,
    Denied,
    ExecutionFailed,
    FailureDetails,
    InvalidParams,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    OutcomeUnknown,
    Problem,
    Repair,
    ResourceNotFound,
    TimedOut,
    ToolError,
    Transient,
    Unavailable,
    UnknownTool,
)

PROFILES = ("default", "llmproc", "rfc015", "structured", "agentopia", "invalid_tool")
VERBOSITIES = {"terse": 1_000, "normal": 8_000, "full": 16_000}  # characters that a text may have
SECRET = ValueError("password=hunter2")
_WITH_SECRETS: tuple[ToolError, ...] = (
    UnknownTool("red", ("read",)),
    Unavailable("read", "paused", 3.0),
    NotExecuted("the batch stopped"),
    MalformedCall("trailing comma", (1, 8)),
    InvalidParams((Problem("to", "required", "a string"),), (Repair("name", "alias", "raed", "read"),)),
    NeedsUserInput("To whom?", "to"),
    ResourceNotFound("gone", FailureDetails("path"), cause=SECRET),
    Denied("policy", cause=SECRET),
    NeedsSetup("CRM", cause=SECRET),
    TimedOut(3.0, cause=SECRET),
    Transient(SECRET, 3.0, "no"),
    ExecutionFailed("no", FailureDetails("a", "b"), cause=SECRET),
    OutcomeUnknown(Transient(SECRET), "look"),
    Crashed(SECRET),
)
EXAMPLES: tuple[ToolError, ...] = tuple(kind.make_example() for kind in get_args(ToolError))
EACH_KIND = (*_WITH_SECRETS, *(each for each in EXAMPLES if type(each) not in set(map(type, _WITH_SECRETS))))
TEXT = (
    st.text(max_size=40)
    | st.text(st.characters(codec=None), max_size=10)
    | st.builds(
        str.__mul__, st.sampled_from(["ab ", "\n", "{tool}", "`x`", '"', "é"]), st.sampled_from([1, 90, 20_000])
    )
)
SECONDS = st.none() | st.floats() | st.integers(-(10**6), 10**400)
LANDED: Any = st.sampled_from(["no", "maybe", "yes"])
NAMES: Any = st.lists(TEXT, max_size=4).map(tuple)
CAUSES = st.sampled_from([None, SECRET, KeyError("hunter2"), ConnectionError("hunter2")])
DETAILS = st.builds(FailureDetails, st.none() | TEXT, st.none() | TEXT)
RULES = TEXT | st.sampled_from(["required", "type", "additionalProperties", "validator", "enum", "minItems"])
PATHS = TEXT | st.sampled_from(["", "a", "a.b[1]", "to", "date"])
PROBLEMS: Any = st.lists(st.builds(Problem, PATHS, RULES, TEXT, TEXT, TEXT), max_size=4).map(tuple)
MANY: Any = st.builds(tuple[Problem, ...].__mul__, PROBLEMS, st.just(50))
SENT: Any = st.sampled_from([None, {"a": "hunter2"}, '{"a": "hunter2"}', object(), ["hunter2"]])
SCHEMAS: Any = st.sampled_from(
    [
        None,
        {},
        {"type": 5},
        {"type": "object", "properties": {"a": {"type": "string", "description": "A"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 50_000}}, "required": ["a"]},
    ]
)
REPAIRS: Any = st.lists(st.builds(Repair, TEXT, TEXT, st.integers(), TEXT), max_size=2).map(tuple)
TIMED_OUT: Any = st.builds(TimedOut, SECONDS, st.booleans(), LANDED, cause=CAUSES)
TRANSIENT: Any = st.builds(Transient, CAUSES, SECONDS, LANDED)
ERRORS: Any = st.one_of(
    st.builds(UnknownTool, TEXT, NAMES, NAMES, st.none() | st.integers(0, 10**6)),
    st.builds(Unavailable, TEXT, TEXT | st.sampled_from(["busy", "rate_limited", "quota"]), SECONDS),
    st.builds(NotExecuted, TEXT),
    st.builds(MalformedCall, TEXT, st.none() | st.tuples(st.integers(), st.integers()), st.booleans()),
    st.builds(InvalidParams, PROBLEMS | MANY, REPAIRS, sent=SENT, schema=SCHEMAS),
    st.builds(NeedsUserInput, TEXT, st.none() | TEXT),
    st.builds(ResourceNotFound, TEXT, DETAILS, cause=CAUSES),
    st.builds(Denied, TEXT, TEXT, cause=CAUSES),
    st.builds(NeedsSetup, TEXT, TEXT, cause=CAUSES),
    TIMED_OUT,
    TRANSIENT,
    st.builds(ExecutionFailed, TEXT, DETAILS, cause=CAUSES),
    st.builds(OutcomeUnknown, st.none() | TIMED_OUT | TRANSIENT, st.none() | TEXT),
    st.builds(Crashed, CAUSES),
    st.sampled_from(EXAMPLES),
)
