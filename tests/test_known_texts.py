"""Known texts: which texts of a secret are looked for, and where they are found."""

from __future__ import annotations

import html
import json
import re
import textwrap
import time
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, PostgresDsn, SecretBytes, SecretStr, ValidationError

from toolcall_pipeline.privacy import REDACTED
from toolcall_pipeline.privacy.masking import TextCollector


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


def texts_of(value: object, *, declared: bool = True) -> set[str]:
    collector = TextCollector()
    collector.add(value, declared=declared)
    return collector.texts | collector.lines


def mask(secret: object, text: str) -> str:
    collector = TextCollector()
    collector.add(secret)
    return collector.make_mask()(text)


KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nshort\n-----END KEY-----"
COLLECTED: dict[str, tuple[object, set[str]]] = {
    "text": (" pear ", {"pear"}),
    "one letter": ("x", {"x"}),
    "no text": (" ", set()),
    "numbers": ([1, 2.5], {"1", "2.5"}),
    "booleans and null": ([True, False, None], set()),
    "containers": ({"a": ("b", frozenset({"c"})), "d": {"e"}}, {"b", "c", "e"}),
    "secret types": ([SecretStr("s3"), SecretBytes(b"s4")], {"s3", "s4"}),
    "bytes": ([b"raw", bytearray(b"more")], {"raw", "more"}),
    "attrs": (Login("ada", 3), {"ada", "3"}),
    "model": (Model(key="open"), {"open"}),
    "what raises": (Broken(), set()),
    "a UUID": (UUID(int=7), {"00000000-0000-0000-0000-000000000007", "00000000000000000000000000000007"}),
    "a URL": (AnyUrl("http://ada:pear@HOST"), {"http://ada:pear@host/"}),
    "a data source name": (
        PostgresDsn("postgres://ada:opensesame@db/x"),
        {"postgres://ada:opensesame@db/x", "opensesame"},
    ),
    "a webhook": (
        "https://hooks.example/services/T1/B2/x9",
        {"https://hooks.example/services/T1/B2/x9", "/services/T1/B2/x9"},
    ),
    "a URL with a query": (
        "https://h/api?key=opensesame&n=1#part",
        {"https://h/api?key=opensesame&n=1#part", "/api?key=opensesame&n=1", "opensesame"},
    ),
    "a short path": ("https://h/a?n", {"https://h/a?n"}),
    "a Decimal": ([Decimal("1.50")], {"1.50"}),
    "a path": ({"a": Path("/a/b")}, {"/a/b"}),
    "a date": ((date(2026, 11, 23),), {"2026-11-23"}),
    "an address": (IPv4Address("10.0.0.1"), {"10.0.0.1"}),
    "a member of an enum": (Color.RED, {"pear-red"}),
    "JSON text": ('{"a": ["inner", 7]}', {'{"a": ["inner", 7]}', "inner", "7"}),
    "in quotes": ("'abcdef'", {"'abcdef'", "abcdef"}),
    "short, in quotes": ("'abcde'", {"'abcde'"}),
    "a long line": ("open\ntwelve chars\nno", {"open\ntwelve chars\nno", "twelve chars"}),
    "lines of a key": (KEY, {KEY, "-----BEGIN KEY-----", "MIIEvQIBADANBg", "-----END KEY-----"}),
}


@pytest.mark.parametrize(("value", "texts"), COLLECTED.values(), ids=COLLECTED)
def test_every_text_of_a_secret_is_collected(value: object, texts: set[str]) -> None:
    """Texts and numbers wherever they are held, but no boolean, which would take every "True" out of a text."""
    assert texts_of(value) == texts


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (["12345", "123456", "  12345  ", 12345, 123456, True], {"123456"}),
        ({"token": "opensesame", "n": 5}, {"opensesame"}),
    ],
    ids=["length", "mapping"],
)
def test_under_an_undeclared_name_only_long_texts_are_secrets(value: object, texts: set[str]) -> None:
    """Any word may stand there, and a short one would take pieces out of every text."""
    assert texts_of(value, declared=False) == texts


def test_the_number_of_texts_is_bounded() -> None:
    """A call with thousands of texts does not make a pattern of all of them."""
    collector, found = TextCollector(), list[tuple[bool, int]]()
    for word in ("secret", "more"):
        collector.add([f"{word} {n}" for n in range(99)])
        found.append((collector.is_full, len(collector.texts)))
    assert found == [(False, 99), (True, 100)]


def test_without_secrets_a_text_stays() -> None:
    """Nothing is looked for."""
    assert mask(None, "a text") == "a text"


@pytest.mark.parametrize(
    ("secret", "text", "masked"),
    [
        ("abc", "abc abcd -abc-", f"{REDACTED} abcd -{REDACTED}-"),  # shorter than 4: only where it stands alone
        ("abcd", "xabcdx", f"x{REDACTED}x"),
        (1234567, "1234567 12345678", f"{REDACTED} 12345678"),
        (12345678, "x12345678x", f"x{REDACTED}x"),
        ("k" * 100 + "tail", "k" * 100 + "tail, and more", f"{REDACTED}, and more"),
        ("longer than long", "longer than long", REDACTED),
        (["long", "longer"], "longer", REDACTED),
        ("\U0010ffffkey", r"<\U0010ffffkey>", f"<{REDACTED}>"),
        ("code", r"<co\U00110000de>", f"<{REDACTED}>"),  # no character has that number
    ],
    ids=str,
)
def test_where_a_secret_is_found(secret: Any, text: str, masked: str) -> None:
    """A short one may be a part of any word."""
    assert mask(secret, text) == masked


WRITERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "repr of repr": lambda text: repr(repr(text)),
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "JSON as is": lambda text: json.dumps(text, ensure_ascii=False),
    "URL": quote,
    "form": quote_plus,
    "ascii": ascii,
    "HTML": html.escape,
    "HTML with numbers": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML in HTML": lambda text: html.escape(html.escape(text)),
    "repr in HTML": lambda text: html.escape(repr(text)),
    "bytes": lambda text: repr(text.encode()),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
    "Basic": lambda text: b64encode(f"user:{text}".encode()).decode(),
    "Basic, another name": lambda text: b64encode(f"admin:{text}".encode()).decode(),
    "Basic, a third": lambda text: b64encode(f"ad:{text}".encode()).decode().rstrip("="),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}
SECRETS = st.text(st.sampled_from("aZ09 \"'\\\n\r\t\b\f\v\a/%+é\x01ÿĀ€\U0001f511\U0010ffff"), min_size=4, max_size=12)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@example(secret="00\n0")  # no form of it is long, and a pattern of no texts would find the empty one
@given(secret=SECRETS.filter(lambda text: len(text) == len(text.strip()) and not text.isdigit()))
def test_a_secret_is_found_however_it_is_written(write: Callable[[str], str], secret: str) -> None:
    """As it is, in quotes by Python or JSON, once or twice, with or without escapes, and in a URL."""
    assert mask(secret, f"<{write(f'({secret})')}>").count(REDACTED) == 1


LONG: dict[str, str] = {
    "seed phrase": " ".join(f"{word}{n}" for n, word in enumerate(["abandon", "ability", "able", "about"] * 6)),
    "cookie": "; ".join(f"part{n}={sha256(bytes([n])).hexdigest()}" for n in range(8)),
    "PEM": "\n".join(
        [
            "-----BEGIN PRIVATE KEY-----",
            *(b64encode(bytes([n] * 48)).decode() for n in range(200)),
            "-----END PRIVATE KEY-----",
        ]
    ),
    "JSON": json.dumps({f"key {n}": f"value é {n}" for n in range(30)}, ensure_ascii=False),
    "one letter": "a" * 5_000,
    "Unicode": "schön und gut, " * 40,
}


def left_of(secret: str, text: str) -> list[str]:
    """The pieces of six characters of a secret that a text still shows."""
    return [piece for at in range(len(secret) - 5) if (piece := secret[at : at + 6]) in text]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("secret", LONG.values(), ids=LONG)
def test_a_long_secret_is_masked_whole(secret: str, write: Callable[[str], str]) -> None:
    """A secret of any length, with blanks and lines in it, leaves nothing, however it is written."""
    masked = mask(secret, f"before <{write(secret.strip())}> after")
    assert masked.startswith("before <")
    assert masked.endswith("> after")
    assert left_of(secret, masked) == []
    assert len(masked) < 50


@pytest.mark.parametrize("secret", [LONG["PEM"], LONG["seed phrase"]], ids=["PEM", "seed phrase"])
def test_a_secret_is_found_in_other_lines(secret: str) -> None:
    """All of it on one line, with and without blanks, and each line of it by itself."""
    lines = secret.splitlines()
    for text in (" ".join(secret.split()), "".join(lines), textwrap.indent(secret, "    "), *lines, *lines[3:5]):
        masked = mask(secret, f"before <{text}> after")
        assert left_of(text, masked) == []
        assert (masked[:8], masked[-7:]) == ("before <", "> after")


CASES: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "small letters": str.lower,
    "title": str.title,
    "swapped": str.swapcase,
}


@pytest.mark.parametrize("change", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "secret",
    [
        "Hunter2-hunter2",
        "Straße-und-Größe",
        "ΟΔΥΣΣΕΥΣ στη Θράκη",
        "İstanbul-\u0131rmak",
        LONG["seed phrase"],
        LONG["PEM"],
    ],
    ids=["ASCII", "German", "Greek", "Turkish", "seed phrase", "PEM"],
)
@pytest.mark.parametrize(
    "write", [str, repr, json.dumps, quote, html.escape], ids=["str", "repr", "JSON", "URL", "HTML"]
)
def test_a_secret_is_found_in_another_letter_case(
    secret: str, change: Callable[[str], str], write: Callable[[str], str]
) -> None:
    """As a header, an environment variable or a database writes it, also where capitals have another length."""
    changed = change(secret)
    masked = mask(secret, f"before <{write(changed)}> after ẞ")
    assert left_of(changed, masked) == []
    assert (masked[:8], masked[-9:]) == ("before <", "> after ẞ")


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode, encodebytes], ids=["plain", "for URLs", "wrapped"])
@pytest.mark.parametrize("escape", [True, False], ids=["ASCII", "Unicode"])
@pytest.mark.parametrize("name", ["k", "key", "api_key", "Authorization"])
@settings(max_examples=20)
@given(secret=SECRETS.filter(lambda text: len(text) == len(text.strip()) and not text.isdigit()))
def test_a_secret_is_found_in_encoded_json(
    encode: Callable[[bytes], bytes], escape: bool, name: str, secret: str
) -> None:
    """Base64 of an object, in which JSON escapes the secret: as in a token or a cookie."""
    written = json.dumps({name: secret, "rest": "x" * 30}, ensure_ascii=escape)
    encoded = encode(written.encode())
    for text in (encoded.decode(), repr(encoded)):
        assert left_of(encoded.decode().splitlines()[0], mask(secret, f"<{text}>")) == []


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("secret", [LONG["PEM"], LONG["PEM"].replace("\n", "\r\n")], ids=["of LF", "of CRLF"])
def test_a_secret_is_found_in_base64_with_other_line_ends(secret: str, end: str) -> None:
    """What was encoded may be the secret as another system wrote it, and the encoded text may be in lines."""
    data = b64encode(end.join(secret.splitlines()).encode()).decode()
    for text in (data, end.join(textwrap.wrap(data, 64)), end.join(textwrap.wrap(data, 76))):
        assert mask(secret, f"<{text}>") == f"<{REDACTED}>"


class Credentials(BaseModel):
    account: str
    key: int


@pytest.mark.parametrize("secret", ["hunter2-hunter2", "correct horse battery", *LONG.values()], ids=len)
@pytest.mark.parametrize("length", [4, 10, 25])
@pytest.mark.parametrize("write", [str, ascii, html.escape, json.dumps], ids=["str", "ascii", "HTML", "JSON"])
def test_the_ends_that_a_cut_leaves_are_masked(secret: str, length: int, write: Callable[[str], str]) -> None:
    """Where dots stand for the rest of a text, no beginning and no end of the secret is left."""
    secret = secret.strip()
    length = min(length, len(secret) - 1)
    head, tail = (write(each).strip("\"'") for each in (secret[:length], secret[-length:]))
    for dots in ("...", "…", "....."):
        assert mask(secret, f"got <{head}{dots}{tail}> here") == f"got <{REDACTED}{dots}{REDACTED}> here"
        assert mask(secret, f"got <{head}{dots}> here") == f"got <{REDACTED}{dots}> here"
        assert mask(secret, f"got <{dots}{tail}> here") == f"got <{dots}{REDACTED}> here"


@pytest.mark.parametrize("secret", LONG.values(), ids=LONG)
def test_a_secret_that_pydantic_cuts_is_masked(secret: str) -> None:
    """The text of a ValidationError quotes the beginning and the end of a long input."""
    with pytest.raises(ValidationError) as caught:
        Credentials.model_validate({"account": "ada", "key": secret.strip()})
    masked = mask(secret, str(caught.value))
    assert re.findall(r"input_value=(.*), input_type", masked) == [f"'{REDACTED}...{REDACTED}'"]


def test_where_a_text_ends_the_beginning_of_a_secret_is_masked() -> None:
    """A text that was cut without dots ends with six characters of it or more, or begins with its end."""
    secret = "hunter2-hunter2"
    assert mask(secret, f"no login as {secret[:9]}") == f"no login as {REDACTED}"
    assert mask(secret, f"{secret[3:]} is wrong") == f"{REDACTED} is wrong"
    assert mask(secret, "a hunt") == "a hunt"


def test_words_that_are_no_secret_stay() -> None:
    """A cut, a word in base64 and a number in hex by themselves are not masked."""
    text = "Loading... done; see aGVsbG8gd29ybGQ= and 0xdeadbeef... or the hunt for hunters…"
    assert mask(["hunter2-hunter2", "pear"], text) == text


SHORT = [f"{one}{other}" for one in "abcdefghij" for other in "klmnopqrst"]


@given(
    st.lists(
        st.sampled_from(["ab", "abc", "abcd", "abcde", "1234567", "12345678", "1", "b-", "b-c", "x" * 120]), min_size=1
    )
)
def test_of_several_secrets_the_longest_is_found(secrets: list[str]) -> None:
    """Each is taken out as if it were the only one, and where several begin, the longest of them."""
    for text in (" ".join(dict.fromkeys(secrets)), "abcdef abc ab 123456789 1 b-c", "x" * 200):
        masked = mask(secrets, text)
        for secret in secrets:
            assert mask([secret], masked) == masked
    assert mask(secrets, "nothing, 2, cab, 91") == "nothing, 2, cab, 91"


def test_many_secrets_are_looked_for_at_once() -> None:
    """A hundred of them take little longer than one: their first characters are compared once."""

    def measure(secrets: list[str]) -> float:
        collector = TextCollector()
        collector.add(secrets)
        find, times = collector.make_mask(), list[float]()
        for _ in range(5):
            begun = time.thread_time()
            assert find(text) == text
            times.append(time.thread_time() - begun)
        return min(times)

    for secrets in (SHORT, [f"{each}-{each}{each}" for each in SHORT]):
        text = "zx yv " * 10_000
        assert measure(secrets) < 15 * measure(secrets[:1]) + 0.001
