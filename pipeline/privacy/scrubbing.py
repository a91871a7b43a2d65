"""Flaws of a text for a model: `find_flaws` names them, `scrub` and `mask` remove them from a foreign text.

Flaws are status codes, stacks, class names, URLs and paths; the Agentopia document asks for "zero raw HTTP status codes
in user-facing errors".
"""

from __future__ import annotations

import re
from typing import TypeAlias

Patterns: TypeAlias = tuple[re.Pattern[str], ...]

_MAX_TEXT = 10_000  # characters of a foreign text; the rest is cut off
_REASONS = (  # RFC 9110 section 15, in the words of the usual clients
    "bad request|unauthorized|payment required|forbidden|not found|method not allowed|not acceptable|conflict|gone|"
    "request timeout|too many requests|unprocessable (?:entity|content)|(?:content|payload) too large|too early|"
    "internal server error|not implemented|bad gateway|service unavailable|gateway timeout|(?:client|server) error|"
    "moved permanently|temporary redirect|permanent redirect"
)
_CODE = r"(?<!\d)(?<!\d[.,])[1-5]\d\d(?!\d|[.,]\d)"
_FAILED = _CODE.replace("1-5", "45")
_OPEN, _CLOSE = r"[\"']?[\s:=#_(\[<-]{0,4}", r"[)\]>\"']?"
_STATUS: Patterns = (
    re.compile(rf"(?i:https?(?:[ /]?\d\.\d)?(?:[ _-]?(?:error|status|code|response))*){_OPEN}{_CODE}{_CLOSE}"),
    re.compile(rf"(?i:status(?:[ _-]?code)?|(?:error|response)[ _-]code){_OPEN}(?:(?i:is|was|of) )?{_CODE}{_CLOSE}"),
    re.compile(rf"(?i:\b(?:error|returned|responded|responded with|got)){_OPEN}{_FAILED}{_CLOSE}(?=\W*$|[.,;:!]|\n)"),
    re.compile(rf"[(\[<]?{_CODE}[)\]>]?(?=[\s:,;-]{{1,3}}(?i:{_REASONS})\b)"),
)
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"
_HEXTETS = r"[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6}"
_WHOLE_IPV6 = r"(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"
_IPV6 = rf"(?:(?:{_HEXTETS})?::(?:{_IPV4}|{_HEXTETS}(?::{_IPV4})?)|{_HEXTETS}::|{_WHOLE_IPV6})"
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = rf"(?:[\w.+-]{{1,64}}@)?{_LABEL}(?:\.{_LABEL}){{0,8}}"
_PORT = r":\d{1,5}(?!\w|[:.]\d)"
# The port or the service after an address, and the path after that.
_SERVICE = r"(?:[:#,]\d{1,5}(?!\w|[:.]\d)|:[a-z][a-z0-9-]{1,14}(?![\w.:]))"
_TARGET = r"(?:/[^\s<>\"'`,;()\[\]{}]*)?"
_AFTER = rf"{_SERVICE}?{_TARGET}"
_ARROW = r" ?(?:<?->|=>|<-|[\u2190-\u2194]|>) ?"
_PRIVATE = "internal|intranet|local|localdomain|lan|corp|home|private|svc|consul|cluster|test"  # ends of private names
# The words before the name of a host in the errors of the usual clients; after them it may have a single label.
_KNOWN_PORTS = "1433|1521|2181|2379|3306|4222|5432|5672|6379|8500|9042|9092|9200|11211|15672|27017"
_BEFORE_HOST = (
    r"(?:connect(?:ion|ing|ed)?|ECONN[A-Z]+|EAI_AGAIN|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|dial(?: tcp| udp)?|lookup|"
    r"getaddrinfo|server|host(?:name)?|upstream|proxy|to|from|at|on|via|with)"
)
_ADDRESS = (
    rf"(?:\[(?:{_IPV6}|::)(?:%[\w.-]+)?\]|(?<![\w.:]){_IPV6}(?![\w:.])|(?<![\w.]){_IPV4}(?!\w|\.\d)"
    rf"|(?<![\w.-])(?:{_LABEL}\.){{1,8}}[A-Za-z][A-Za-z-]{{1,62}}(?=:\d)){_AFTER}"
)
_URL: Patterns = (
    re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>\"'`]*"),
    re.compile(r"(?i)\bwww\.[^\s<>\"'`]+"),
    re.compile(
        r"(?i)(?<![@\w.-])(?:[\w-]{1,63}\.){1,8}(?:com|org|net|io|dev|ai|app|co|edu|gov|cloud|local)[:/][^\s<>\"'`]*"
    ),
    re.compile(r"(?i)\blocalhost(?:[:/][^\s<>\"'`]*)?"),
    # IP addresses and hosts, with their ports.
    re.compile(rf"{_ADDRESS}(?:{_ARROW}{_ADDRESS})+"),
    re.compile(rf"\(['\"](?:{_IPV4}|{_IPV6}|{_HOST})['\"], ?\d{{1,5}}(?:, ?\d+){{0,2}}\)"),  # as Python writes them
    re.compile(rf"\[(?:{_IPV6}|::)(?:%[\w.-]+)?\]{_AFTER}"),
    re.compile(rf"(?<![\w:.])(?:{_IPV6}(?:%[\w.-]+)?(?![\w:]|\.\d)|::ffff:{_IPV4}:\d{{1,5}}\b){_TARGET}"),
    re.compile(rf"(?<![\w.])(?:[\w.+-]{{1,64}}@)?{_IPV4}(?!\w|\.\d){_AFTER}"),
    re.compile(r"(?<![\w:*])(?:::|\*|):\d{2,5}(?!\w|[:.]\d)"),  # any address of the machine, such as *:8080
    re.compile(rf"(?<![@\w.-])(?:[\w.+-]{{1,64}}@)?(?:{_LABEL}\.){{1,8}}[A-Za-z][A-Za-z-]{{1,62}}{_PORT}{_TARGET}"),
    re.compile(rf"(?<![\w.-]){_LABEL}-{_LABEL}{_PORT}{_TARGET}"),  # a single label: db-7:5432
    re.compile(rf"(?<=@){_LABEL}{_PORT}{_TARGET}|(?<![\w.-]){_LABEL}:(?:{_KNOWN_PORTS})(?![\w:]|\.\d){_TARGET}"),
    re.compile(rf"(?i)\b{_BEFORE_HOST}[ :='\"(]{{1,3}}[A-Za-z][\w-]{{0,62}}:\d{{2,5}}(?![\w:]|\.\d){_TARGET}"),
    re.compile(rf"(?i)(?<![@\w.-])(?:[\w.+-]{{1,64}}@)?(?:{_LABEL}\.){{1,8}}(?:{_PRIVATE})\b(?!\.\w){_AFTER}"),
    re.compile(r"(?i)\b(?:ENOTFOUND|EAI_AGAIN|lookup) [\w.-]+"),
    re.compile(r"(?i)\b(?:host(?:name)?|hostaddr|port|server|endpoint)['\"]?=['\"]?[^\s'\",;)]+"),
)
_ROOTS = "app|bin|boot|data|dev|etc|home|lib|lib64|media|mnt|opt|private|proc|root|run|sbin|srv|sys|tmp|usr|var"
_PATH: Patterns = (
    re.compile(r"([\"'`])(?:~?/|[A-Za-z]:[\\/]|\\\\)[^\"'`\n]+\1"),  # in quotes, where blanks are part of the path
    re.compile(r"(?<!\w)[A-Za-z]:\\(?:[^\\/:*?\"<>|\n]{1,100}\\)*[^\\/:*?\"<>|\s]*"),
    re.compile(r"(?<!\w)[A-Za-z]:/(?!/)[^\s\"'`<>|,;]+"),
    re.compile(r"\\\\[\w.$-]+(?:\\[^\\\s\"'<>|]+)+"),
    re.compile(r"(?<![\w/.~-])~?/[^\s/\"'`<>|,;:()]+/[^\s\"'`<>|,;:()]*"),
    re.compile(rf"(?<![\w/.~-])(?:~/[^\s\"'`<>|,;:()]+|/(?:{_ROOTS}|Users|Volumes)\b[^\s\"'`<>|,;:()]*)"),
)
_CLASS: Patterns = (
    re.compile(r"<(?:class|function|module|bound method|[\w.]+ object)\b[^>\n]*>?"),
    re.compile(
        r"\b(?:[A-Za-z_]\w{0,60}(?:\.|::|\\)){0,12}[A-Za-z_]\w{0,60}(?<=[a-zA-Z0-9])"
        r"(?:Error|Exception|Warning|Fault)\b(?:\[\w+\])?"
    ),
    re.compile(r"\b(?:KeyboardInterrupt|StopIteration|StopAsyncIteration|SystemExit|GeneratorExit)\b"),
    re.compile(r"\b(?:[a-z_]\w{1,60}(?:\.|::)){2,12}[A-Z]\w*"),
)
_STACK: Patterns = (
    re.compile(r"Traceback \(most recent call last\)|Exception Group Traceback"),
    re.compile(r"\bFile \"[^\"\n]*\", line \d+"),
    re.compile(r"\bline \d+, in \S"),
    re.compile(r"(?:^|\s)at \S[^\n()]{0,200}\((?:[^()\n]*\.\w+:\d+(?::\d+)?|<anonymous>|native code|Native Method)\)"),
    re.compile(r"^\s+at \S+:\d+:\d+\s*$", re.MULTILINE),
    re.compile(r"\bgoroutine \d+ \[|\bstack backtrace:|\bthread '[^'\n]*' panicked at"),
)
_FLAWS = {"status code": _STATUS, "path": _PATH, "url": _URL, "class name": _CLASS, "stack": _STACK}

# An author may write these, but a foreign text must not pass them on: keys, passwords, addresses, and numbers from 400
# to 599 that do not count anything.
_UNITS = (
    "%|bytes?|[kmg]i?b|tokens?|words?|lines?|pages?|rows?|items?|entries|results?|files?|times|days?|hours?|minutes?"
    "|m?s|seconds?|milliseconds?|char(?:acter)?s?|px|pixels?|requests?|calls?|messages?|recipients?|records?"
)
_COUNTING = r"(?<!at most )(?<!at least )(?<!up to )(?<!than )(?<!maximum of )(?<!minimum of )(?<!limit of )"
_FOREIGN: Patterns = (
    re.compile(r"(?i)\bauthorization[\"']?\s?[=:]\s?(?:(?:bearer|basic) )?[^\s\"',;]+"),
    re.compile(r"(?i)\b(?:bearer|basic) [\w.~+/=-]{6,}"),
    re.compile(r"(?i)\b(?:password|passwd|pwd|secret|token|api[_ -]?key)[\"']?\s?[=:]\s?[\"']?[^\s\"',;]+"),
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|glpat|xox[abp]|AKIA)[-_]?[\w-]{8,}"),
    re.compile(r"\b0x[0-9a-fA-F]{4,}\b|\[Errno -?\d+\]|\[WinError \d+\]"),
    re.compile(r"(?<![\w/.-])(?:\.{0,2}/)?(?:[\w.@-]+/)+[\w.@-]+\.[A-Za-z]\w{0,5}\b"),  # a relative path
    re.compile(rf"{_COUNTING}(?<![\w$€£#-])[(\[<]?{_FAILED}[)\]>]?(?![\w-])(?! ?(?:{_UNITS})\b)", re.IGNORECASE),
)
_TIDY = (  # what is left around a removed part
    (re.compile(r"\(\s*\)|\[\s*\]|<\s*>|\"\s*\"|'\s*'|`\s*`"), " "),
    (re.compile(r"(?m)^\s*(?:<?->|=>|<-|[\u2190-\u2194])|(?:<?->|=>|<-|[\u2190-\u2194])\s*(?=[.,;:!?)]|$)"), " "),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" +([.,;:!?)])"), r"\1"),
    (re.compile(r"([,;:])(?:[,;:.-]| (?=[,;:.-]))+"), r"\1"),
    (re.compile(r"^[\s,;:.)\]-]+|[\s,;:(\[-]+$", re.MULTILINE), ""),
    (re.compile(r"\n\s*\n+"), "\n"),
)


def find_flaws(text: str) -> tuple[str, ...]:
    """The flaws of a text: of ``status code``, ``path``, ``url``, ``class name``, ``stack``; () for a good text."""
    found = {name for name, patterns in _FLAWS.items() if any(each.search(text) for each in patterns)}
    if "path" in found and "url" in found:
        bare = _remove(_URL, text)
        if not any(each.search(bare) for each in _PATH):  # the path was part of the URL
            found.remove("path")
    return tuple(name for name in _FLAWS if name in found)


def scrub(text: str) -> str:
    """Remove all flaws, keys and passwords from a foreign text; "" if no letter or digit is left.

    If the text holds a stack, only the part before the stack is kept.
    """
    text = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT].rpartition(" ")[0]
    for _ in range(10):  # a removal may join two parts to a new flaw, or end the word in front of one
        bare = _cut_stack(text)
        for patterns in (_URL, _FOREIGN[:4], _STATUS, _CLASS, _PATH, _FOREIGN[4:]):
            bare = _remove(patterns, bare)
        if bare == text:
            return text if any(map(str.isalnum, text)) else ""
        text = bare
        for pattern, replacement in _TIDY:
            text = pattern.sub(replacement, text)
    return ""


def mask(text: str) -> str:
    """Put "…" in place of each address, path, key and password of a command. `scrub` is for prose: it also tidies."""
    for patterns in (_URL, _FOREIGN[:4], _PATH):
        for each in patterns:
            text = each.sub("…", text)
    return text


def _cut_stack(text: str) -> str:
    """Return the part in front of the first stack."""
    stacks = [found.start() for each in _STACK if (found := each.search(text))]
    return text[: min(stacks)].rstrip() if stacks else text


def _remove(patterns: Patterns, text: str) -> str:
    for each in patterns:
        text = each.sub(" ", text)
    return text
