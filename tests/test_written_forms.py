"""Written forms: a secret is found in the other ways in which tools, clients and terminals write the same value."""

from __future__ import annotations

import json
import quopri
import shlex
import time
import unicodedata
from base64 import a85encode, b32encode, b64encode, b85encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from test_known_texts import WRITERS, mask
from toolcall_pipeline import Call, Secret, ToolRegistry
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline.privacy import REDACTED
from toolcall_pipeline.privacy.masking import TextCollector

KEY = UUID("12345678-1234-5678-1234-567812345678")
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WORD = "hunter2-Pa55"
BYTES = b"\xff\xfe\x00bin-secret"
BASIC = b64encode(b"ada:pw-12345").decode()

# A secret, and texts that tell it.
EQUAL: dict[str, tuple[Any, list[str]]] = {
    "a date": (date(1985, 3, 9), ["1985-03-09", repr(date(1985, 3, 9)), "09.03.1985", "03/09/1985", "19850309"]),
    "a date as text": ("1985-03-09", [repr(date(1985, 3, 9)), "09/03/1985", "1985/03/09"]),
    "a time": (MOMENT, [str(MOMENT), MOMENT.isoformat(), repr(MOMENT), "2026-01-02T03:04:05Z"]),
    "a time as text": ("2026-01-02T03:04:05Z", [str(MOMENT), MOMENT.isoformat(), repr(MOMENT)]),
    "a UUID as text": (str(KEY), [KEY.hex, repr(KEY), KEY.urn, KEY.hex.upper()]),
    "a UUID in hex": (KEY.hex, [str(KEY)]),
    "an integer": (41_110_000, ["41,110,000", "41_110_000", "41 110 000", "41.110.000", "41110000.0"]),
    "the number of a card": (
        4111_0000_1111_2222,
        ["4111 0000 1111 2222", "4111-0000-1111-2222", "4,111,000,011,112,222"],
    ),
    "the same in groups": ("4111 0000 1111 2222", ["4111000011112222", "4111-0000-1111-2222"]),
    "a phone number": ("+49 170 1234567", ["491701234567", "tel:+491701234567"]),
    "a float": (1234.5, ["1234.50", "1,234.5", "1,234.50"]),
    "a whole float": (1e22, ["10000000000000000000000", "1e+22"]),
    "a Decimal": (Decimal("12.50"), ["12.5", "Decimal('12.50')"]),
    "bytes": (
        BYTES,
        [repr(BYTES), repr(bytearray(BYTES)), b64encode(BYTES).decode(), BYTES.hex(), BYTES.hex().upper()],
    ),
    "few bytes": (b"\xde\xad\xbe\xef", [r"b'\xde\xad\xbe\xef'", "deadbeef", "3q2+7w==", "3q2-7w"]),
    "a view of bytes": (memoryview(b"opensesame"), ["opensesame"]),
    "a buffer": (WORD, [str([*WORD.encode()]), json.dumps([*WORD.encode()], separators=(",", ":"))]),
    "hex in pairs": (WORD, [WORD.encode().hex(":"), WORD.encode().hex(" "), f"<Buffer {WORD.encode().hex(' ')}>"]),
    "broken by a terminal": (
        WORD,
        ["hunter2-\nPa55", "hunter2-\r\n    Pa55", "\u200b".join(WORD), "hunter2-\u00adPa55"],
    ),
    "other escapes": (
        WORD,
        [
            "".join(f"\\{ord(char):03o}" for char in WORD),
            "".join(f"\\u{{{ord(char):x}}}" for char in WORD),
            "".join(f"%u{ord(char):04x}" for char in WORD),
        ],
    ),
    "base64 in a URL": (
        "??>>~~",
        [quote(b64encode(b"u:??>>~~??").decode(), safe=""), r"Pz8+Pn5+Lz8=\/".replace("+", "%2B")],
    ),
    "Latin-1": ("p\u00e4ssw\u00f6rd", ["p%E4ssw%F6rd", repr("p\u00e4ssw\u00f6rd".encode("latin-1")), "cORzc3f2cmQ="]),
    "PowerShell": (WORD, [b64encode(f"x{WORD}".encode("utf-16-le")).decode(), WORD.encode("utf-16-le").hex()]),
    "big-endian": (WORD, [b64encode(f"x{WORD}".encode("utf-16-be")).decode(), WORD.encode("utf-16-be").hex()]),
    "a card in pieces": ("4111111111111111", ["\u200b".join("4111111111111111"), "41111111\n11111111"]),
    "in colours": (
        WORD,
        [f"\x1b[01;31m\x1b[K{WORD[:4]}\x1b[m\x1b[K{WORD[4:]}", f"\\u001b[1m{WORD[:4]}\\u001b[0m{WORD[4:]}"],
    ),
    "quotes that are doubled": ('it\'s "so"', ["'it''s \"so\"'", '"it\'s ""so"""', shlex.quote('it\'s "so"')]),
    "a percent sign that is escaped": ("a+b/%41?c", ["".join(f"%{byte:02x}" for byte in b"a+b/%41?c")]),
    "lists of bytes": (
        WORD,
        [
            " ".join(map(str, WORD.encode())),
            ",\n  ".join(map(str, b"user:" + WORD.encode())),
            ", ".join(map(hex, WORD.encode())),
        ],
    ),
    "pieces": (WORD, [str((WORD[:5], WORD[5:])), json.dumps([WORD[:5], WORD[5:9], WORD[9:]])]),
    "lists of characters": (WORD, [str([*WORD]), json.dumps([*WORD]), json.dumps([*WORD], separators=(",", ":"))]),
    "quoted-printable": (
        "p=\u00e4\u20ac w\u00f6rd",
        [quopri.encodestring("p=\u00e4\u20ac w\u00f6rd".encode()).decode(), "p=3D=C3=A4=E2=82=\r\n=AC w=C3=B6rd"],
    ),
    "base32": (WORD, [b32encode(f"a:{WORD}".encode()).decode(), b32encode(WORD.encode()).decode().lower().rstrip("=")]),
    "base85": (WORD, [a85encode(WORD.encode()).decode(), b85encode(WORD.encode()).decode()]),
    "codes in codes": (
        WORD,
        [
            b64encode(b64encode(f"ada:{WORD}".encode())).decode(),
            b64encode(WORD.encode().hex().encode()).decode(),
            b64encode(WORD.encode()).hex(),
            b64encode(f"password={quote(WORD, safe='')}%21".encode()).decode(),
            b64encode(json.dumps([*WORD]).encode()).decode(),
            WORD.encode().hex().encode().hex(),
        ],
    ),
    "escapes of its own": ("&amp;&lt;x", ["%26amp%3B%26lt%3Bx"]),
    "numbers of its own": ("&#65;bcd", ["%26%2365%3Bbcd"]),
}


@pytest.mark.parametrize(("secret", "texts"), EQUAL.values(), ids=EQUAL)
def test_an_equal_value_is_masked(secret: Any, texts: list[str]) -> None:
    """Dates, numbers, identifiers and bytes have several texts, and each of them tells the secret."""
    assert [text for text in texts if REDACTED not in mask(secret, f"<{text}>")] == []


CODES: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: b64encode(data).decode(),
    "base64 for URLs": lambda data: urlsafe_b64encode(data).decode().rstrip("="),
    "base64 of a mail": lambda data: encodebytes(data).decode(),
    "base32": lambda data: b32encode(data).decode(),
    "hex": lambda data: data.hex(),
    "HEX": lambda data: data.hex().upper(),
    "hex in pairs": lambda data: data.hex(":"),
    "bytes": lambda data: ", ".join(map(str, data)),
    "percent": lambda data: "".join(f"%{byte:02x}" for byte in data),
}


@given(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=8, max_size=40),
    st.text("ab:{", max_size=5),
    st.sampled_from([*CODES]),
    st.sampled_from(["base64", "base64 for URLs", "base32", "hex", "HEX", "bytes"]),
)
@settings(max_examples=50)
def test_a_secret_is_masked_in_two_codes_of_each_other(secret: str, before: str, inner: str, outer: str) -> None:
    """A credential is encoded for a header, and the header for a log: no part of either code stays."""
    once = CODES[inner]((before + secret).encode())
    for text in (once, CODES[outer](once.encode())):
        assert REDACTED in mask(secret, f"token {text} was refused"), text


# A secret, and the part of it that an error may tell alone.
PARTS: dict[str, tuple[str, str]] = {
    "a token as user": ("https://ghp_opensesame@github.com/a/b.git", "ghp_opensesame"),
    "a password with escapes": ("https://ada:open%40sesame@host", "open@sesame"),
    "the same as it is": ("https://ada:open%40sesame@host", "open%40sesame"),
    "no user": ("redis://:opensesame@h:6379/0", "opensesame"),
    "no scheme": ("//ada:opensesame@h/", "opensesame"),
    "user info": ("ada:opensesame@db.internal", "opensesame"),
    "a fragment": ("https://h/#access_token=opensesame&x=1", "opensesame"),
    "the end of a webhook": ("https://hooks/services/T1/B2/XxYyZz12", "XxYyZz12"),
    "Bearer": ("Bearer opensesame-1", "opensesame-1"),
    "Basic": (f"Basic {BASIC}", "pw-12345"),
    "Basic, user and password": (f"Basic {BASIC}", "ada:pw-12345"),
    "a data source name": ("host=db user=ada password='open sesame'", "open sesame"),
    "ADO": ("Server=h;User Id=ada;Password=opensesame;", "opensesame"),
    "a cookie": ("theme=dark; session=opensesame", "opensesame"),
}


@pytest.mark.parametrize(("secret", "part"), PARTS.values(), ids=PARTS)
def test_the_secret_part_of_a_secret_is_masked(secret: str, part: str) -> None:
    """A client tells the password that was refused, and not the URL or the header that held it."""
    assert mask(secret, f"refused: {part} (user ada)") == f"refused: {REDACTED} (user ada)"


def test_the_other_parts_of_a_url_stay() -> None:
    """An error that names the host, or a word of the path, is of use."""
    text = "GET db.example:5432 in services of ada: 503"
    assert mask("https://ada:opensesame@db.example:5432/services/main", text) == text


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    "secret",
    ["p\u00e4ssw\u00f6rd", "\u212b\u0301ngstr\u00f6m-key", "\ud55c\uae00\ube44\ubc00\ubc88\ud638", "\ufb01le-secret"],
)
def test_each_unicode_form_is_masked(secret: str, write: Any, form: Any) -> None:
    """A file system or a database answers in another form than it was sent, however that is written then."""
    written = write(unicodedata.normalize(form, secret))
    assert mask(secret, f"<{written}>").count(REDACTED) == 1


@pytest.mark.parametrize("user", ["u", "ad", "ada", "user", "admin"])
@pytest.mark.parametrize("secret", ["x", "k7", "42", "007", "a.b", "?!", "^", "\u00e9", "N7!", "4711", "1234567"])
def test_a_short_secret_is_masked_in_a_header(secret: str, user: str) -> None:
    """No part of it is long enough to be known in base64 at any place, so words are decoded."""
    for encode in (b64encode, urlsafe_b64encode):
        for written in (
            encode(f"{user}:{secret}".encode()).decode(),
            encode(f"{user}:{secret}".encode()).decode().rstrip("="),
        ):
            assert mask(secret, f"sent Basic {written} to host") == f"sent Basic {REDACTED} to host"
    assert mask(secret, f"pin_{secret}, '{secret}'") == f"pin_{REDACTED}, '{REDACTED}'"


def test_words_that_decode_to_nothing_stay() -> None:
    """Words of a language and identifiers are valid base64 or hex, too, and hold no secret."""
    text = "the user deadbeef asked GitHub for commit 3f2a9c1 and README of version 2026 in abcd1234"
    assert mask("k7", text) == text


def test_what_other_calls_hide_is_bounded() -> None:
    """A batch of thousands of calls with secrets makes no pattern of thousands of texts: seconds, or minutes."""
    collector, other = TextCollector(), TextCollector()
    other.add([f"secret {n}" for n in range(99)])
    other.lines.update(f"a line of a secret {n}" for n in range(20_000))
    for _ in range(2):
        collector.add_all(other)
        collector.add("one more")
    assert (len(collector.texts), len(collector.lines)) == (100, 10_000)


async def test_a_batch_of_secrets_is_withheld_in_time() -> None:
    """Arguments that hold thousands of calls of a tool with secrets are recorded without any of them."""
    tools = ToolRegistry()

    @tools.tool
    async def log_in(password: Annotated[str, Secret]) -> str:
        return password

    @tools.tool
    async def run(calls: list[dict[str, Any]]) -> str:
        return str(len(calls))

    calls = [{"name": "log_in", "arguments": {"password": f"opensesame {n}"}} for n in range(5_000)]
    began = time.process_time()
    report = await standard(tools).report(Call("run", {"calls": calls}))
    assert time.process_time() - began < 5  # one hundredth of what it took
    assert "opensesame" not in repr(report.call.arguments)
