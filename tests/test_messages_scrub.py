"""What a text for a model should not hold: named by `find_flaws`, removed by `scrub`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_pipeline.privacy import find_flaws, mask, scrub

STACK = 'Traceback (most recent call last):\n  File "/srv/a.py", line 2, in run\n    boom()\nKeyError: 1'
FLAWS: dict[str, tuple[str, ...]] = {
    "": (),
    "Missing required parameter: path": (),
    "The path must not be empty. Use a relative path within the project.": (),
    "Refusing to write outside project root: ../x": (),
    "File not found: a.txt": (),
    "Error: Tool 'a/b' not found.": (),
    "must be at most 500 characters": (),
    "between 100 and 500": (),
    "within 429 seconds": (),
    "returned 200 items": (),
    "Error: 3 files": (),
    "An Error. Error code? GitHub and OpenAI": (),
    "on 12/31/2024 and/or at 90 km/h as application/json": (),
    "meet at noon (10:30)": (),
    "write to ada@example.org": (),
    "at the end.The next": (),
    "HTTP 400: Bad Request": ("status code",),
    "HTTP/1.1 404": ("status code",),
    "http_error=502": ("status code",),
    "Request failed with status code 503": ("status code",),
    "status: 401": ("status code",),
    "Error code: 429 - slow down": ("status code",),
    "404 Not Found": ("status code",),
    "(500) Internal Server Error": ("status code",),
    "the server returned 503.": ("status code",),
    "see https://errors.example.dev/2/v/missing": ("url",),
    "see errors.example.dev/2/v/missing": ("url",),
    "www.example.org": ("url",),
    "postgres://ada:pw@db/main": ("url",),
    "localhost:8000 refused": ("url",),
    "connect ECONNREFUSED 10.0.0.3:5432": ("url",),
    "connect ECONNREFUSED ::1:5432": ("url",),
    "no route to 192.168.1.20": ("url",),
    "peer 10.0.0.0/8 is blocked": ("url",),
    "user@10.0.0.3 refused": ("url",),
    "bound to 0.0.0.0:8000.": ("url",),
    "[::1]:80 is in use": ("url",),
    "[fe80::1%eth0]:22": ("url",),
    "from 2001:db8::8a2e:370:7334, denied": ("url",),
    "from 2001:0db8:0000:0000:0000:8a2e:0370:7334": ("url",),
    "::ffff:10.0.0.3 is unreachable": ("url",),
    "('10.0.0.3', 5432) timed out": ("url",),
    "('::1', 5432, 0, 0) timed out": ("url",),
    "('db', 5432) timed out": ("url",),
    "db-7.internal:5432 is down": ("url",),
    "cannot reach db-7.internal": ("url",),
    "orders.shop.svc.cluster.local did not answer": ("url",),
    "db-7:5432 is down": ("url",),
    "api.example.com:443": ("url",),
    "Connection to postgres:15432 refused": ("url",),
    "redis:6379 refused": ("url",),
    "ada@db:5432": ("url",),
    "getaddrinfo ENOTFOUND cache7": ("url",),
    "dial tcp: lookup orders on 10.0.0.2:53: no such host": ("url",),
    "HTTPSConnectionPool(host='api.example.com', port=443)": ("url",),
    "listen on [::]:8080 failed": ("url",),
    "bind :::8080": ("url",),
    "*:8080 is in use": ("url",),
    "10.0.0.3:5432->10.0.0.4:33012": ("url",),
    "2.3 -> 2.4, a -> b, x => y": (),
    "server version 1.2.3, build 10.0.19041": (),
    "at 10:30:15 or 2026-11-24T10:30:15Z": (),
    "limit: 100, step:3, id:12345": (),
    "ratio 16:9, page 3:12, chapter:10": (),
    "Foo::bar is not a method": (),
    "see RFC 9110, section 15.5.1": (),
    "see https://example.org/etc/passwd": ("url",),
    "see https://example.org/a?file=/etc/passwd": ("url",),
    "see https://example.org/a?file=/etc/passwd and /etc/hosts": ("path", "url"),
    "see https://example.org/a, not /etc/passwd": ("path", "url"),
    "see file:///home/ada/a.txt": ("url",),
    "No such file: '/home/ada/My Files/a.txt'": ("path",),
    "/etc/passwd": ("path",),
    "~/a.txt": ("path",),
    "C:\\Users\\ada\\a.txt": ("path",),
    "D:/work/a.txt": ("path",),
    "\\\\server\\share": ("path",),
    "KeyError: 'a'": ("class name",),
    "requests.exceptions.ConnectionError": ("class name",),
    "NullPointerException": ("class name",),
    "<class 'int'>": ("class name",),
    "<Session object at 0x7f00>": ("class name",),
    "not an instance of app.models.User": ("class name",),
    STACK: ("path", "class name", "stack"),
    "cannot read\n    at run (app.js:1:2)": ("stack",),
    "in main.go, goroutine 1 [running]": ("stack",),
    "ValueError, HTTP 500 at https://x.org/y from /tmp/a": ("status code", "path", "url", "class name"),
}


@pytest.mark.parametrize(("text", "found"), FLAWS.items(), ids=[f"{i}: {text[:30]}" for i, text in enumerate(FLAWS)])
def test_flaws_are_named(text: str, found: tuple[str, ...]) -> None:
    """Each flaw of a text is named, and a good text has none."""
    assert find_flaws(text) == found


SCRUBBED = {
    "HTTP 400: Bad Request": "Bad Request",
    "ValidationError: content parameter is required": "content parameter is required",
    "Query must be at most 500 characters": "Query must be at most 500 characters",
    "The amount is 450 files too large": "The amount is 450 files too large",
    "(429) slow down": "slow down",
    "page 404": "page",
    "cannot read src/app/main.py today": "cannot read today",
    "[Errno 2] No such file or directory: '/Users/John Smith/x.txt'": "No such file or directory",
    "Invalid api_key=abc123, ask again": "Invalid, ask again",
    "Incorrect key sk-proj-0123456789": "Incorrect key",
    "Authorization: Bearer abcdefgh is wrong": "is wrong",
    "cannot read\n    at run (/a/b.js:1:2)": "cannot read",
    STACK: "",
    "connect ECONNREFUSED 10.0.0.3:5432": "connect ECONNREFUSED",
    "Connection to db-7.internal:5432 refused.": "Connection to refused.",
    "[::1]:80 is in use": "is in use",
    "listen tcp [::]:8080: bind: in use": "listen tcp: bind: in use",
    "bind to :8080 failed": "bind to failed",
    "read tcp 10.0.0.3:5432->10.0.0.4:33012: i/o timeout": "read tcp: i/o timeout",
    "dial tcp [::1]:80->[::1]:81: refused": "dial tcp: refused",
    "10.0.0.3:5432 -> 10.0.0.4:80 refused": "refused",
    "from a-1.internal:80 → a-2.internal:80 and on": "from and on",
    "db.internal:5432/path is down": "is down",
    "10.0.0.3:5432/path is down": "is down",
    "[2001:db8::1]:443/path is down": "is down",
    "db-7:5432/orders is missing": "is missing",
    "redis:6379/0 is down": "is down",
    "api.example.com:443/v1/x?y=1 is bad": "is bad",
    "10.0.0.3:http is refused": "is refused",
    "db-7.internal:postgres is refused": "is refused",
    "10.0.0.3#53: refused": "refused",
    "from ::ffff:10.0.0.1:80 again": "from again",
    "first a -> b, then c": "first a -> b, then c",
    "HTTP 500": "",
    "": "",
    "It failed with status code 503line 3, in g": "It failed with",  # a stack only when the code is removed
}


@pytest.mark.parametrize(
    ("text", "left"), SCRUBBED.items(), ids=[f"{i}: {text[:30]}" for i, text in enumerate(SCRUBBED)]
)
def test_the_rest_of_a_scrubbed_text_reads_well(text: str, left: str) -> None:
    """Flaws, keys and passwords are removed, with the brackets and punctuation around them."""
    assert scrub(text) == left


MASKED = {
    "psql postgres://ada:pw@db/main -c 'select 1'": "psql … -c 'select 1'",
    "/usr/bin/python -c 'print(1)'": "… -c 'print(1)'",
    "psql -h db-7.internal -p 5432": "psql -h … -p 5432",
    "nc 10.0.0.3:22": "nc …",
    "curl -H 'Authorization: Bearer abcdefgh' x": "curl -H '…' x",
    "grep -n TODO src/a.py": "grep -n TODO src/a.py",
}


@pytest.mark.parametrize(("command", "left"), MASKED.items(), ids=MASKED)
def test_a_masked_command_can_still_be_read(command: str, left: str) -> None:
    """Addresses, absolute paths, keys and passwords are masked, and the rest of a command stays as it is."""
    assert mask(command) == left


WORDS = st.sampled_from(
    ["the", "query", "is", "missing", "Error:", "(", ")", "at", "in", "status", "code", "HTTP", "-"]
)
CODES = st.integers(100, 599).map(str)
FAILED = st.integers(400, 599).map(str)
UGLY = st.one_of(
    WORDS,
    st.text(max_size=6),
    FAILED,
    st.builds("HTTP {}".format, CODES),
    st.builds("HTTP/1.1 {} Not Found".format, CODES),
    st.builds("status code {}".format, CODES),
    st.builds("status={}".format, CODES),
    st.builds("[{}]".format, FAILED),
    st.sampled_from([text for text, found in FLAWS.items() if found]),
)


@given(st.lists(UGLY, max_size=8).map(" ".join) | st.lists(UGLY, max_size=8).map("".join) | st.text())
def test_a_scrubbed_text_has_no_flaws(text: str) -> None:
    """A scrubbed text has no flaws, is not longer, and is not changed by a second scrub."""
    left = scrub(text)
    assert find_flaws(left) == ()
    assert len(left) <= len(text)
    assert scrub(left) == left


@given(st.lists(WORDS | FAILED, max_size=8).map(" ".join))
def test_no_possible_status_code_is_left(text: str) -> None:
    """A number from 400 to 599 stays in a foreign text only if it counts something."""
    assert re.search(r"\b[45]\d\d\b", scrub(text)) is None


HOSTILE = "a.", "/a", "C:\\", "(", "http ", "\\\\a", " ", "''", "::", "A", "aError", ",;", "'/", "400 ", "www.", "at x"


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_long(piece: str) -> None:
    """No pattern needs more than linear time for a text of repeated pieces."""
    import time

    text = piece * (40_000 // len(piece))
    started = time.thread_time()
    scrub(text)
    find_flaws(text[:10_000])
    assert time.thread_time() - started < 2
