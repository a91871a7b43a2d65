"""Mask: which values are secrets of a call, and how they are taken out of values and texts."""

from __future__ import annotations

import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, SecretBytes, SecretStr

from toolcall_pipeline import Denied, OutcomeUnknown, ToolError, Unavailable, UnknownTool
from toolcall_pipeline.engine.errors import ExecutionFailed, FailureDetails, InvalidParams, Problem
from toolcall_pipeline.privacy import REDACTED, WITHHELD, Mask, approved
from toolcall_pipeline.privacy.masking import SecretValues


@attrs.frozen
class Login:
    user: str
    tries: int


class Model(BaseModel):
    key: str


class Color(Enum):
    RED = "pear-red"


class Broken:
    def get_secret_value(self) -> str:
        raise ValueError


def collect(value: object, *, declared: bool = True) -> SecretValues:
    values = SecretValues()
    values.add(value, ("declared",), declared=declared)
    return values


def make_mask(*secrets: object) -> Mask:
    return Mask(lambda: collect([*secrets]))


COLLECTED: dict[str, tuple[object, set[str]]] = {
    "text": (" pear ", {"pear"}),
    "one letter": ("x", {"x"}),
    "no text": (" ", set()),
    "numbers": ([10, 2.5], {"10", "2.5"}),
    "digits, booleans, null and no number": ([7, "7", True, False, None, float("nan"), float("inf")], set()),
    "containers": ({"a": ("b", frozenset({"c"})), "declared": {"e"}}, {"a", "b", "c", "e"}),
    "secret types": ([SecretStr("s3"), SecretBytes(b"s4")], {"s3", "s4"}),
    "bytes": ([b"raw", bytearray(b"more")], {"raw", "more"}),
    "attrs": (Login("ada", 33), {"ada", "33"}),
    "model": (Model(key="open"), {"open"}),
    "a UUID": (UUID(int=7), {"00000000-0000-0000-0000-000000000007", "00000000000000000000000000000007"}),
    "a URL": (AnyUrl("http://ada:pear@HOST"), {"http://ada:pear@host/"}),
    "a Decimal": ([Decimal("1.50")], {"1.50"}),
    "a path": ({"declared": Path("/a/b")}, {"/a/b"}),
    "a date": ((date(2026, 11, 23),), {"2026-11-23"}),
    "a time": (datetime(2026, 11, 23, tzinfo=UTC), {"2026-11-23 00:00:00+00:00", "2026-11-23T00:00:00+00:00"}),
    "an address": (IPv4Address("10.0.0.1"), {"10.0.0.1"}),
    "a member of an enum": (Color.RED, {"pear-red"}),
    "JSON text": ('{"declared": ["inner", 77]}', {'{"declared": ["inner", 77]}', "inner", "77"}),
}


@pytest.mark.parametrize(("value", "texts"), COLLECTED.values(), ids=COLLECTED)
def test_every_text_of_a_secret_is_collected(value: object, texts: set[str]) -> None:
    """Texts, numbers and keys wherever they are held, but nothing that stands in every record."""
    found = collect(value)
    assert found.texts == texts
    assert not found.is_full


def test_under_an_undeclared_name_only_long_texts_are_secrets() -> None:
    """Any word and any number may stand there."""
    assert collect(["12345", "123456", 12345, 123456, True], declared=False).texts == {"123456"}


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "secret",
    [Broken(), LOOP, [f"secret {n}" for n in range(101)], [n + 10 for n in range(3_000)]],
    ids=["unreadable", "a loop", "many", "too many"],
)
def test_what_is_not_known_to_hold_no_secret_is_withheld(secret: object) -> None:
    """A secret that cannot be read, and more than a hundred of them: no value and no text is recorded then."""
    mask = make_mask(secret)
    assert mask("a text") == REDACTED
    assert mask.value({"a": [1.5, "b", True]}) == {REDACTED: [REDACTED, REDACTED, True]}


WRITERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "ascii": ascii,
    "JSON": json.dumps,
    "JSON as is": lambda text: json.dumps(text, ensure_ascii=False),
    "URL": quote,
    "form": quote_plus,
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
    "Basic": lambda text: b64encode(f"user:{text}".encode()).decode(),
    "Basic, another name": lambda text: b64encode(f"admin:{text}".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}
SECRETS = st.text(st.sampled_from("aZ09 \"'\\\n\r\t/%+é\x01ÿĀ€\U0001f511"), min_size=6).filter(
    lambda text: len(text.strip()) == len(text)
)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@example(secret="'''\"\"\"")
@given(secret=SECRETS)
def test_a_secret_is_masked_as_it_is_usually_written(write: Callable[[str], str], secret: str) -> None:
    """As it is, by Python, in JSON, in a URL, in base64 and in hex; what stands around it stays."""
    masked = make_mask(secret)(f"<no {write(secret)} here>")
    assert REDACTED in masked
    assert write(secret) not in masked
    assert (masked[:4], masked[-6:]) == ("<no ", " here>")


@given(st.lists(st.text("ab1.", min_size=1), min_size=1), st.text("ab1. "))
def test_no_text_keeps_a_long_secret(secrets: list[str], text: str) -> None:
    """Of several secrets that overlap none is left, and one that is the whole text is never left."""
    masked = make_mask(*secrets)(text)
    held = [each.strip() for each in secrets if len(each.strip()) >= 6]
    assert [each for each in held if each in masked] == []
    assert masked == text or REDACTED in masked
    if any(
        each.strip() == text.strip() and not (len(each.strip()) == 1 and each.strip().isdigit()) for each in secrets
    ):
        assert masked in (REDACTED, text if not text.strip() else REDACTED)


@pytest.mark.parametrize(
    ("secret", "value", "masked"),
    [
        ("abc", "abc abcd", "abc abcd"),
        ("abc", {"abc": [" abc ", "abcd"]}, {REDACTED: [REDACTED, "abcd"]}),
        (4821, {"4821": 1, "04821": 2}, {REDACTED: 1, f"{REDACTED} 2": 2}),
        (1, [1, True, "1", 1.0, "1 2"], [1, True, "1", 1.0, "1 2"]),
        (123456, "x1234567", f"x{REDACTED}7"),
        (
            "redacted",
            {"a": 0, f"{REDACTED} 2": 2, f"{REDACTED} 3": 3},
            {"a": 0, f"{REDACTED} 2": 2, f"{REDACTED} 3": 3},
        ),
        ("-7", [-7, "-7", 7], [-7, REDACTED, 7]),
    ],
)
def test_a_value_is_masked_where_it_is_the_secret(secret: object, value: Any, masked: Any) -> None:
    """A short secret may be a part of any word, and a digit or a truth value stands everywhere."""
    assert make_mask(secret).value(value) == masked


def test_a_number_of_thousands_of_digits_is_masked() -> None:
    """Python writes no text of it."""
    secret = 10**5000
    assert make_mask(secret).value([secret, secret - 1]) == [REDACTED, secret - 1]


def test_an_error_keeps_its_form() -> None:
    """Its texts, its details and its problems are masked, and each is still of its type."""
    mask = make_mask("hunter2-x", 4821)
    details = FailureDetails(approved("hunter2-x"), value={"pin": 4821}, more={"hunter2-x": [4821, 5]})
    error = mask.error(ExecutionFailed(approved("no hunter2-x"), details))
    assert error == ExecutionFailed(
        approved(f"no {REDACTED}"),
        FailureDetails(approved(REDACTED), value={"pin": REDACTED}, more={REDACTED: [REDACTED, 5]}),
    )
    refused = InvalidParams((Problem("a", "type", approved("not hunter2-x")), Problem("b", "type", approved("a text"))))
    assert [each.expected for each in mask.error(refused).problems] == [f"not {REDACTED}", "a text"]
    plain = ExecutionFailed(approved("no"))
    assert mask.error(plain) is plain
    told: Any = mask.error(ExecutionFailed(approved("x" * 100_000 + "hunter2-x")))
    assert told.message == "x" * 100_000 + "…"
    whole = ExecutionFailed(approved("x" * 100_000))
    assert mask.error(whole) is whole


@pytest.mark.parametrize("error", [
    UnknownTool("hunter2-x", ("hunter2-x",), ("hunter2-x", "pay")), Unavailable("my hunter2-x", "no hunter2-x"),
    Denied(by="hunter2-x", message=approved("hunter2-x")), OutcomeUnknown(verify_with="look at hunter2-x"),
])  # fmt: skip
def test_no_field_of_an_error_keeps_a_secret(error: ToolError) -> None:
    """A tool may return a failure that it made: names in it are its author's words, as texts are."""
    assert "hunter2-x" in repr(attrs.asdict(error))
    assert "hunter2-x" not in repr(attrs.asdict(make_mask("hunter2-x").error(error)))


def test_a_text_of_others_is_withheld() -> None:
    """All of it, whatever it holds, unless it is asked for: then it is masked as a text of the author's."""
    for foreign, shown in (("withhold", WITHHELD), ("mask", f"no {REDACTED}")):
        mask = Mask(lambda: collect("hunter2-x"), foreign)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a text of the two
        assert mask.foreign("no hunter2-x") == shown


@pytest.mark.parametrize(
    "secrets", [["a" * 50_000], [f"{n:03}" * 400 for n in range(100)], ["'\"\\" * 3_000]], ids=["one", "many", "signs"]
)
def test_a_mask_takes_time_for_what_it_reads(secrets: list[str]) -> None:
    """A hundred secrets, or one of many signs, in a text of 200 kB are looked for in less than a second."""
    mask, text = make_mask(*secrets), secrets[0][:-1] * (200_000 // len(secrets[0]))
    best = 9.0
    for _ in range(3):  # the least: the garbage of other tests may be collected meanwhile
        began = time.thread_time()
        mask(text)
        best = min(best, time.thread_time() - began)
    assert best < 1
