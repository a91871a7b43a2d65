"""Which names run a tool, by an oracle of its own: it builds noise up where the code cuts it, and compares letters.

Nothing of `toolcall_pipeline.tools` is used here but the registry, so a mistake there is not repeated by the judge.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure

from support import a_tool
from toolcall_pipeline import Call, Effect, ResolvedCall, ToolRegistry, UnknownTool
from toolcall_pipeline.middlewares import Resolve

BLANKS, QUOTES, SEPARATORS = " \t\r\n", "\"'`", "-_. "
ARGUMENTS = frozenset(
    (*("commentary", "analysis", "final"), *("assistant", "user", "system", "developer", "tool"), "json", "code")
)
TOKENS = ("channel", "start", "end", "message", "constrain", "call", "return", "im_start", "im_end", "endoftext")
CUT = frozenset(token[:end] for token in TOKENS for end in range(3, len(token) + 1))
ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
NO_SERVER = ("functions", "tools", "mcp", "default_api")
STRENGTH = {"read": 0, "idempotent": 1, "keyed": 2, "mutating": 3}


# --- the oracle -------------------------------------------------------------------------------------------------------


def is_token(text: str) -> bool:
    """Whether this is one whole control token."""
    return text[:2] == "<|" and text[-2:] == "|>" and len(text) > 4 and set(text[2:-2]) <= ASCII_WORD


def is_last_token(text: str) -> bool:
    """Whether this is one control token with its words, or one that is cut off."""
    if text[:2] != "<|":
        return False
    end = text.find("|>")
    if end < 0:
        return text[2:].removesuffix("|") in CUT
    words = text[end + 2 :]
    glued = [word for word in ARGUMENTS if words.startswith(word)]  # "<|channel|>final", and no blank before it
    return (
        is_token(text[: end + 2])
        and (not words or words[0] in BLANKS or bool(glued))
        and set(words.split()) <= ARGUMENTS
    )


def begins_with_argument(text: str) -> bool:
    """Whether what follows a first token may be its channel, role or type."""
    text = text.lstrip()
    return any(
        text.startswith(word) and (text == word or text[len(word)] not in ASCII_WORD | set(".-")) for word in ARGUMENTS
    )


def wider(sent: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Each window that is this one with one piece of noise more."""
    before, after = sent[:start][-1:], sent[end : end + 1]
    first, last = sent[start:end][:1], sent[start:end][-1:]
    if before and before in BLANKS:
        yield start - 1, end
    if after and after in BLANKS:
        yield start, end + 1
    if before and before == after and before in QUOTES:
        yield start - 1, end + 1
    if before and before in QUOTES and first and first not in BLANKS:
        yield start - 1, end
    if after and after in QUOTES and last and last not in BLANKS:
        yield start, end + 1
    if sent[:start].endswith("|>") and not begins_with_argument(sent[start:end]):
        begin = sent.rfind("<|", 0, start)
        if begin >= 0 and is_token(sent[begin:start]):
            yield begin, end
    if start < end and after == "<":
        yield from ((start, stop) for stop in range(end + 3, len(sent) + 1) if is_last_token(sent[end:stop]))


def is_all_noise(sent: str, start: int, end: int) -> bool:
    """Whether all that surrounds this window is transport noise."""
    waiting = [(start, end, False)]
    for begin, stop, prefixed in waiting:
        if (begin, stop) == (0, len(sent)):
            return True
        new = [(*each, prefixed) for each in wider(sent, begin, stop)]
        if not prefixed and sent[:begin].endswith("functions."):
            new.append((begin - len("functions."), stop, True))
        waiting += [each for each in new if each not in waiting]
    return False


def bodies(sent: str) -> set[str]:
    """All that is left of a name with some or all of its noise cut off."""
    windows = ((start, end) for start in range(len(sent) + 1) for end in range(start, len(sent) + 1))
    return {sent[start:end] for start, end in windows if is_all_noise(sent, start, end)}


def gap_at(name: str, place: int) -> str:
    """The separator here, if it stands between two letters or digits."""
    for gap in ["__", *SEPARATORS]:
        after = name[place + len(gap) : place + len(gap) + 1]
        if name.startswith(gap, place) and name[:place][-1:].isalnum() and after.isalnum():
            return str(gap)
    return ""


def mean_the_same(gap: str, other: str, before: str) -> bool:
    """Whether two separators before a digit may stand for each other."""
    if gap == other:
        return True
    if not gap or not other:
        return not before.isnumeric() and gap + other in ("_", " ")
    return "__" not in (gap, other) and (gap in "_ " or other in "_ ")


def alike(name: str, other: str) -> bool:
    """Whether two names differ only in case and in separators between letters or digits."""
    i = j = 0
    before = ""
    while True:
        gap, gap_of_other = gap_at(name, i), gap_at(other, j)
        i, j = i + len(gap), j + len(gap_of_other)
        if i == len(name) or j == len(other):
            return i == len(name) and j == len(other)
        one, two = name[i], other[j]
        if one != two and (one.lower(), one.upper()) != (two.lower(), two.upper()):
            return False
        if one.isnumeric() and not mean_the_same(gap, gap_of_other, before):
            return False
        before, i, j = one, i + 1, j + 1


def after_prefixes(name: str) -> Iterator[tuple[str, str]]:
    """Each server prefix of a name, and what follows it."""
    for place in range(len(name)):
        if gap_at(name, place) == "__":
            yield name[:place], name[place + 2 :]


def means(body: str, name: str) -> bool:
    """Whether a name without noise is that of a tool but for case, separators and a server prefix."""
    prefixed = next(iter(after_prefixes(body)), None)
    sent = [body, *([prefixed[1]] if prefixed and prefixed[0].lower() in NO_SERVER else [])]
    return any(alike(one, other) for one in sent for other in [name, *(tail for _, tail in after_prefixes(name))])


def first_word(body: str) -> str:
    """The command, if this is a command line."""
    ends = [place for place, letter in enumerate(body) if letter.isspace() or letter in ";|&<>()"]
    return body[: ends[0]] if ends else ""


# --- names that are near each other -----------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["read", "file", "delete", "run_c", "report_11", "v1", "1", "10", "x", "user2", "straße", "cat"]
)
JOINS = st.sampled_from(["_", "-", ".", " ", "__", "", "/", ":"])
EFFECTS: st.SearchStrategy[Effect] = st.sampled_from(("read", "read", "idempotent", "mutating"))
LOOKALIKES = str.maketrans("ea12ksilf\u00df", "\u0435\u0430\uff11\u00b2\u212a\u017f\u0130\u0131\uff46\u1e9e")
ENDS = (
    *("-", "+", "++", "#", "!", "$", "_", "__", "'", '"', "`", " ", "\n", "()", " -a", "; rm", "%", "'s", ' ""', "<|"),
    *("<|channel|>commentary", "<|chan", "<|x|>", "<|end|><|start|>assistant", "<|channel|>_file", "<|message|>{}"),
)
FRONTS = (
    *("-", "+", "_", "__", ".", "/", "$", "@", "~", '"', "'", " ", "functions.", "functions__", "mcp__", "fs__", "fs."),
    *("<|start|>", "<|start|>assistant", "tools.", "no_", "un"),
)


@st.composite
def a_variation(draw: st.DrawFn, name: str) -> str:
    """A name that differs from this one in something, which may mean nothing or everything."""
    place = draw(st.integers(0, len(name)))
    head, tail = name[:place], name[place:]
    middle = st.sampled_from(["_", "-", ".", " ", "__", "--", "..", "+", "<|x|>", "<|channel|>", "1", "e"])
    return str(
        draw(
            st.one_of(
                middle.map(lambda each: head + each + tail),
                st.just(head + tail[1:]),
                st.just(head + tail[:1].translate(str.maketrans(SEPARATORS, "_.-_")) + tail[1:]),
                st.just(head + tail[:1].translate(LOOKALIKES) + tail[1:]),
                st.sampled_from(
                    [name.upper(), name.title(), name.swapcase(), name.casefold(), head + tail.capitalize()]
                ),
                st.sampled_from([unicodedata.normalize("NFKC", name), unicodedata.normalize("NFD", name)]),
                st.sampled_from(ENDS).map(name.__add__),
                st.sampled_from(FRONTS).map(lambda front: front + name),
                st.sampled_from(QUOTES).map(lambda quote: quote + name + quote),
            )
        )
    )


@st.composite
def registries(draw: st.DrawFn) -> tuple[dict[str, Effect], str]:
    """Tools with near names, and a name that is near one of them."""
    names = draw(st.lists(st.tuples(WORDS, JOINS, WORDS).map("".join) | WORDS, min_size=1, max_size=3))
    for _ in range(draw(st.integers(0, 2))):
        names.append(draw(a_variation(draw(st.sampled_from(names)))))
    tools: dict[str, Effect] = {name: draw(EFFECTS) for name in names if name.strip()}
    sent = draw(st.sampled_from(names))
    for _ in range(draw(st.integers(1, 3))):
        sent = draw(a_variation(sent))
    return tools, sent[:40]


def build(effects: dict[str, Effect]) -> ToolRegistry:
    tools = ToolRegistry()
    for name, effect in effects.items():
        tools.register(a_tool(name, effect))
    return tools


def resolve(tools: ToolRegistry, sent: str, *, canonical_names: bool = False) -> str | UnknownTool:
    found = Resolve(tools, canonical_names=canonical_names)(Call(sent))
    if isinstance(found, ResolvedCall):
        return found.tool.name
    error: UnknownTool = found.failure()
    return error


def allowed(names: Iterable[str], sent: str) -> set[str]:
    """The tools that a name means without a guess: that very one, or all that only noise tells apart."""
    found = {name for name in names if name == sent}
    left = bodies(sent)
    return found or {name for name in names if name in left}


def judge(effects: dict[str, Effect], sent: str) -> None:
    """Compare Resolve with the oracle, without and with the option."""
    tools = build(effects)
    plain, canonical = resolve(tools, sent), resolve(tools, sent, canonical_names=True)
    exact = allowed(effects, sent)
    if len(exact) == 1:
        assert {plain} == {canonical} == exact
        return
    assert isinstance(plain, UnknownTool), f"{sent!r} ran {plain!r}, which it does not mean"
    assert exact <= set(plain.suggestions) or len(exact) > 3
    left = bodies(sent)
    meant = exact or {name for name in effects if any(means(body, name) for body in left)}
    command = first_word(min(left, key=len))
    commanded = {name for name in effects if command and means(command, name)}
    # A lone suggestion is the tool itself, or what is left of the name without a prefix: then others were near as well.
    others = plain.suggestions if len(plain.suggestions) > 1 else ()
    near = [STRENGTH[effects[name]] for name in others if name not in meant]
    if isinstance(canonical, str):
        assert {canonical} == meant, f"{sent!r} may mean {meant}"
        assert not commanded, f"{sent!r} is a command line"
        assert not near or STRENGTH[effects[canonical]] <= max(near), f"{canonical!r} is the strongest near {sent!r}"
    else:
        weakest = all(effects[name] == "read" for name in meant)
        assert len(meant) != 1 or commanded or not weakest, f"{sent!r} can only mean {meant}"
        assert meant | commanded <= set(canonical.suggestions) or len(meant | commanded) > 3


@settings(deadline=None, max_examples=400)
@given(registries())
def test_a_name_runs_only_what_it_can_mean(case: tuple[dict[str, Effect], str]) -> None:
    """A name runs the one tool that it means by the rules; of two readings none is taken, and both are suggested."""
    judge(*case)


# Names that once ran a tool which they do not mean, and names that were judged wrongly: what each one runs, without
# the option and with it.
COUNTEREXAMPLES: list[tuple[tuple[str, ...], str, str | None, str | None]] = [
    (("read",), "-read", None, None),
    (("read",), "read-", None, None),
    (("read",), "__read", None, None),
    (("read",), ".read", None, None),
    (("read",), "read()", None, None),
    (("run_c",), "run_c++", None, None),
    (("run_c",), "run_c#", None, None),
    (("run_c++",), "run_c", None, None),
    (("report_1_1",), "report_11", None, None),
    (("report_11",), "report_1_1", None, None),
    (("report_1.1",), "report_11", None, None),
    (("report_1_1",), "report-1-1", None, "report_1_1"),
    (("report_1.5",), "report_1-5", None, None),
    (("report_1_5", "report_1.5"), "report 1 5", None, None),
    (("tol_1e-5",), "tol_1e5", None, None),
    (("set_1",), "set_-1", None, None),
    (("delete.file",), "file", None, None),
    (("delete/file",), "file", None, None),
    (("delete:file",), "file", None, None),
    (("file",), "delete.file", None, None),
    (("file",), "delete__file", None, None),
    (("fs__read",), "read", None, "fs__read"),
    (("fs__read",), "web__read", None, None),
    (("fs__read", "web__read"), "read", None, None),
    (("fs__read", "read"), "Read", None, None),
    (("read",), "read<|x|>_file", None, None),
    (("read",), "read<|channel|>_file", None, None),
    (("read_file",), "read<|x|>_file", None, None),
    (("read",), "read<|channel|>commentary_file", None, None),
    (("read",), "read<|message|>{}", None, None),
    (("run",), "run<|", None, None),
    (("commentary",), "<|channel|>commentary", None, None),
    (("assistant",), "<|start|>assistant<|channel|>final", None, None),
    (("x", "x'"), '"x\'"', None, None),
    (("read", "functions.read"), '"functions.read"', None, None),
    (("a", " a"), "  a", None, None),
    (("read",), "functions.functions.read", None, None),
    (("cat",), "cat file", None, None),
    (("cat", "cat_file"), "cat file", None, None),
    (("cat",), 'cat ""', None, None),
    (("cat",), "cat;", None, None),
    (("read_file",), "read file", None, "read_file"),
    (("k",), "\u212a", None, None),
    (("strasse",), "straße", None, None),
    (("i",), "İ", None, None),
    (("file",), "ﬁle", None, None),
    (("read1",), "read\uff11", None, None),
    (("read",), "r\u0435ad", None, None),
    (("café",), "cafe\u0301", None, None),
    (("ändern",), "ÄNDERN", None, "ändern"),
]


@pytest.mark.parametrize(("names", "sent", "plain", "canonical"), COUNTEREXAMPLES, ids=str)
def test_counterexamples(names: tuple[str, ...], sent: str, plain: str | None, canonical: str | None) -> None:
    """Names that were found to be taken for another one; and they are refused with suggestions."""
    tools = build(dict.fromkeys(names, "read"))
    found, found_with_option = resolve(tools, sent), resolve(tools, sent, canonical_names=True)
    assert (found if isinstance(found, str) else None) == plain
    assert (found_with_option if isinstance(found_with_option, str) else None) == canonical
    judge(dict.fromkeys(names, "read"), sent)


@pytest.mark.parametrize(
    ("names", "sent", "suggested"),
    [
        pytest.param(("cat", "cut"), "cat file", "cat", id="command line"),
        pytest.param(("search", "search_web"), "search web", "search", id="command line, or a separator"),
        pytest.param(("cat", "file"), "cat\tfile", "cat", id="tab"),
        pytest.param(("ls", "rm"), "ls; rm -r", "ls", id="two commands"),
        pytest.param(("grep", "file"), "grep<file", "grep", id="redirection"),
        pytest.param(("fs__cat",), "Cat file.txt", "fs__cat", id="canonical"),
    ],
)
@pytest.mark.parametrize("canonical_names", [False, True])
def test_a_command_line_is_suggested_by_its_first_word(
    names: tuple[str, ...], sent: str, suggested: str, canonical_names: bool
) -> None:
    """A name that is a command line runs nothing; the tool that is its command is suggested first."""
    found = Resolve(build(dict.fromkeys(names, "read")), canonical_names=canonical_names)(Call(sent))
    assert isinstance(found, Failure)
    assert found.failure().suggestions[0] == suggested
