r"""Redact: what a model or a tool must not see is taken out of results, failures and arguments, in linear time."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from support import a_call, a_tool
from toolcall_pipeline import Failure, SetupError, Success, ToolFailed, ToolRegistry, Transient, approved, render
from toolcall_pipeline.messages import Image
from toolcall_pipeline.middlewares import Redact, Shape, standard
from toolcall_pipeline.privacy.linear_pattern import LinearPattern, merge_spans
from toolcall_pipeline.stores import Memory
from toolcall_pipeline.testing import check_stage, script

CARD, MARK = "4111111111111111", "[redacted]"
CARDS = r"\b\d{16}\b"
IMAGE = Image("image/png", b"abc")


class Account(BaseModel):
    owner: str
    iban: str


@dataclass
class Row:
    id: int
    IBAN: str


async def told(value: object, redact: Redact) -> Any:
    """What becomes of a result."""
    outcome = await redact(a_call(a_tool()), script(Success(value)))
    assert type(outcome) is Success
    return outcome.unwrap()


def once(texts: list[str]) -> Any:
    """An iterator, which gives its texts to whoever asks first."""
    return iter(texts)


TAKEN: list[tuple[str, Redact, object, object]] = [
    ("a field", Redact(["iban"]), {"iban": "DE1", "n": 1}, {"iban": MARK, "n": 1}),
    ("spelt otherwise", Redact(["api_key"]), {"apiKey": "k", "API-Key": 5}, {"apiKey": MARK, "API-Key": MARK}),
    ("with all that is in it", Redact(["owner"]), {"owner": {"name": ["Ann"]}}, {"owner": MARK}),
    ("in a list of lists", Redact(["iban"]), [[{"iban": "x"}]], [[{"iban": MARK}]]),
    ("by its last steps", Redact(["a.id"]), {"a": [{"id": 1}], "id": 2}, {"a": [{"id": MARK}], "id": 2}),
    ("of a model", Redact(["iban"]), Account(owner="Ann", iban="DE1"), {"owner": "Ann", "iban": MARK}),
    ("of a dataclass", Redact(["iban"]), Row(1, "DE1"), {"id": 1, "IBAN": MARK}),
    ("in JSON that is a text", Redact(["iban"]), '{"iban": "DE1"}', '{"iban": "[redacted]"}'),
    ("in JSON in a text of data", Redact(["iban"]), {"t": '[{"iban": 1}]'}, {"t": '[{"iban": "[redacted]"}]'}),
    ("in a literal that is a text", Redact(["iban"]), "{'iban': 'DE1'}", '{"iban": "[redacted]"}'),
    ("named by an iterator", Redact(once(["iban"]), once([CARDS])), {"iban": 1, "t": CARD}, {"iban": MARK, "t": MARK}),
    ("a pattern", Redact(patterns=[CARDS]), f"pay {CARD} now", f"pay {MARK} now"),
    ("at both ends", Redact(patterns=[CARDS]), f"{CARD} {CARD}", f"{MARK} {MARK}"),
    ("a number", Redact(patterns=[CARDS]), {"card": int(CARD), "n": 1}, {"card": MARK, "n": 1}),
    ("a name of a field", Redact(patterns=[CARDS]), {CARD: 1}, {MARK: 1}),
    ("beside an image", Redact(patterns=[CARDS]), [CARD, IMAGE], [MARK, IMAGE]),
    (
        "of an MCP result",
        Redact(["iban"]),
        {"content": [], "structuredContent": {"iban": 1}},
        {"content": [], "structuredContent": {"iban": MARK}},
    ),
    ("in bytes", Redact(patterns=[CARDS]), CARD.encode(), [MARK]),
    ("twice in an object", Redact(patterns=[CARDS]), f'{{"a": "{CARD}", "a": 1}}', f'{{"a": "{MARK}", "a": 1}}'),
    ("two patterns that overlap", Redact(patterns=["abc", "cde"]), "xabcdex", f"x{MARK}x"),
    ("a detector", Redact(detect=lambda text: [(0, 3)] if text.startswith("Ann") else []), ["Ann B"], [f"{MARK} B"]),
    ("of a text that is too long", Redact(patterns=["x"]), "y" * 1_000_001, MARK),
]


@pytest.mark.parametrize(("redact", "value", "expected"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
async def test_what_is_named_is_taken_out(redact: Redact, value: object, expected: object) -> None:
    """By field, pattern or detector, wherever it stands in a result; all else stays."""
    assert await told(value, redact) == expected


NEARLY_JSON = [
    '{"iban": "DE1", "iban": null}',
    '{"a": NaN, "iban": "DE1"}',
    '\ufeff{"iban": "DE1"}',
    '{"n": 1, "iban": "DE1',
    '"n": 1, "iban": "DE1"}',
    '{"iban": "DE1"}\n{"iban": "DE2"}',
    '{"n": 1}\n{"IBAN" : "DE2"}',
    '```json\n{"iban": "DE1"}\n```',
    'Here it is: {"iban": "DE1"}',
    '{"ib\\u0061n": "DE1",',
    r'"{\"iban\": \"DE1\"}"',
    r'{"t": "{\"ib\\u0061n\": \"DE1\"',
    "{'iban': 'DE1', }}",
    "{iban: 'DE1'}",
    "i_ban: DE1",
    r'{"t": "first\niban: DE1',
    "owner: Ann\niban: DE1",
    '{"x": ' * 2_000 + '{"iban": "DE1"}' + "}" * 2_000,
]


@pytest.mark.parametrize("text", NEARLY_JSON, ids=[ascii(text[:30]) for text in NEARLY_JSON])
async def test_a_text_that_may_hold_a_field_is_withheld(text: str) -> None:
    """A text that names a field, or its last step, and is not JSON of one meaning is not told."""
    assert await told(text, Redact(["iban"])) == MARK
    assert await told({"t": [text]}, Redact(["customer.iban"])) == {"t": [MARK]}


PLAIN = [
    "The iban is missing.",
    "Which iban? Ann: the first one",
    "my_iban: 5, ibans: 6, caliban: 7",
    '{"iban": null}',
    '{"note": "no iban"}',
    "10:30 iban",
    "{",
    "iban",
    'iban {"n": 1}',
]


@pytest.mark.parametrize("text", PLAIN)
async def test_a_text_that_only_mentions_a_field_is_told(text: str) -> None:
    """Prose, other names, and JSON in which the field has no value."""
    assert await told(text, Redact(["iban"])) is text


@pytest.mark.parametrize("value", [None, True, 0, "text", {"a": [1]}, Account(owner="A", iban="x"), [IMAGE], b"abc"])
async def test_a_result_without_it_stays_the_same_object(value: object) -> None:
    """No stage of one's own pays with the type of its results for what is not there."""
    assert await told(value, Redact(["secret"], [CARDS], detect=lambda _: [])) is value


def explode(_: str) -> Any:
    raise RuntimeError("no")


UNFIT: list[Callable[[str], Any]] = [explode, lambda _: None, lambda _: ["x"], lambda _: [(None, 1)]]


@pytest.mark.parametrize("detect", UNFIT, ids=range(len(UNFIT)))
async def test_a_detector_that_fails_withholds_the_text(detect: Any) -> None:
    """What was not looked at is not told."""
    assert await told({"a": "Ann"}, Redact(detect=detect)) == {MARK: MARK}


async def test_failures_are_told_without_it() -> None:
    """The text, the suggestion and the further facts of a failure are told to a model too."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def look() -> str:
        """Look."""
        raise ToolFailed(f"no card {CARD}", suggestion=f"not {CARD}", details={"iban": "DE1", "card": CARD})

    run = standard(tools).before("retry", Redact(["iban"], [CARDS]))
    text = render(await run.call("look"))
    assert MARK in text
    assert CARD not in text
    assert "DE1" not in text
    same = Transient(message=approved("nothing"))
    assert (await Redact(["iban"])(a_call(a_tool()), script(Failure(same)))).failure() is same


async def test_a_tool_is_given_its_arguments_without_it() -> None:
    """In whatever form the model wrote them; a parameter that cannot be without it is refused before the body."""
    tools = ToolRegistry()
    seen: list[Any] = []

    @tools.tool(effect="mutating")
    async def note(text: str, account: Account | None = None, amount: int = 1) -> str:
        """Note."""
        seen.append((text, account, amount))
        return text

    run = standard(tools).before("retry", Redact(["iban"], [CARDS], arguments=True))
    account = {"owner": "Ann", "iban": "DE1"}
    for arguments in ({"text": CARD, "account": account}, json.dumps({"text": CARD, "account": account})):
        assert await run.call("note", arguments) == Success(MARK)
    assert seen == [(MARK, Account(owner="Ann", iban=MARK), 1)] * 2
    refused = await run.call("note", {"text": "x", "amount": int(CARD)})
    assert refused.failure().kind == "validation"
    assert CARD not in render(refused)
    assert len(seen) == 2
    kept = standard(tools).before("retry", Redact(["iban"], [CARDS]))
    assert await kept.call("note", {"text": CARD}) == Success(MARK)
    assert seen[-1][0] == CARD


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fields": "iban"},
        {"fields": [1]},
        {"fields": [""]},
        {"patterns": ["("]},
        {"patterns": ["(?=a)b"]},
        {"patterns": [r"(a)\1"]},
        {"patterns": ["(?>a)b"]},
        {"patterns": ["a++"]},
        {"patterns": ["(?:a{1000}){1000}"]},
        {"detect": 5},
    ],
)
def test_what_cannot_be_is_refused_at_once(options: Any) -> None:
    """Nothing to take out, a text in place of texts, and a pattern that does not run in linear time."""
    with pytest.raises(SetupError):
        Redact(**options)


def test_it_is_a_stage_like_any_other() -> None:
    """It keeps the rules of `check_stage`."""
    check_stage(Redact(["iban"], [CARDS]))


PATTERNS = [
    *("a{2}", "[ab]+c[ab]*", r"\bab+\b", "^a|b$", "(a|bc)*c", "(a+)+b"),
    *("a.?b", r"(?i)A\n?b", r"\Bb\B", "[^a]b{2,3}?"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text("abc1 \n", max_size=8))
def test_a_pattern_covers_what_some_match_of_re_covers(pattern: str, text: str) -> None:
    """Every part that `re` can match at any place, to any end, and nothing else."""
    flags = re.match(r"(\(\?i\))?", pattern)
    assert flags is not None
    body = pattern[flags.end() :]
    covered = {
        place
        for begin in range(len(text))
        for end in range(begin + 1, len(text) + 1)
        if re.compile(rf"{flags[0]}(?=(?:{body})[\s\S]{{{len(text) - end}}}\Z)").match(text, begin)
        for place in range(begin, end)
    }
    assert {place for begin, end in LinearPattern(pattern).find(text) for place in range(begin, end)} == covered


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(a+)+$", "a" * 50_000 + "!"), ("(a|aa)+b", "a" * 50_000), ("[0-9]+x", "1" * 50_000), ("(x+x+)+y", "x" * 50_000)],
)
def test_no_text_makes_a_pattern_slow(pattern: str, text: str) -> None:
    """For `re` each of these texts takes longer than anybody waits."""
    assert LinearPattern(pattern).find(text) == []


@given(text=st.text("abc1 \n", max_size=8))
def test_patterns_together_cover_what_each_covers(text: str) -> None:
    """They are one automaton, and no pattern's flags or borders are those of another."""
    apart = [span for each in PATTERNS for span in LinearPattern(each).find(text)]
    assert LinearPattern(*PATTERNS).find(text) == list(merge_spans(apart))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a|b)*a(a|b){20}c", "".join(map(random.Random(1).choice, repeat("ab", 50_000)))),
        (r"\b\d{16}\b", "".join(map(chr, range(0x20, 0xD000)))),
    ],
    ids=["each step is a new one", "each character is a new one"],
)
def test_a_text_that_takes_too_many_steps_is_withheld(pattern: str, text: str) -> None:
    """What was kept of earlier characters says nothing of the next one, so the work for one text is bounded."""
    assert LinearPattern(pattern).find(text) == [(0, len(text))]
    again = LinearPattern(pattern)
    assert [again.find("ab 4111111111111111 ab") for _ in range(3)] == [
        LinearPattern(pattern).find(f"ab {CARD} ab")
    ] * 3


@pytest.mark.parametrize("keep", [False, True])
def test_shape_gets_results_that_hold_nothing_any_more(keep: bool) -> None:
    """A text that is cut, or read on piece by piece, shows one part of what is to be taken out, and then the other."""
    tools = ToolRegistry()
    shape = Shape(200, keep=Memory() if keep else None)
    redact = Redact(patterns=[r"\d{16}"])
    with pytest.raises(SetupError, match="redact"):
        standard(tools).before("retry", redact).before("retry", shape)
    assert standard(tools).before("retry", shape).before("retry", redact).stages[4:6] == ("shape", "redact")
