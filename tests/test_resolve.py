"""Resolve: the name that a model wrote becomes a tool by rules that never guess, or a failure with suggestions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Failure

from support import a_tool
from toolcall_pipeline import Call, Effect, Repair, ResolvedCall, ToolRegistry, ToolView, UnknownTool
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import Resolve
from toolcall_pipeline.tools import SuggestionIndex, suggest_names
from toolcall_pipeline.tools.matching import Spelling


def holding(*names: str, effect: Effect = "read", **effects: Effect) -> ToolRegistry:
    """A registry with tools of those names, all of one effect, or each of its own."""
    tools = ToolRegistry()
    for name in names:
        tools.register(a_tool(name, effect))
    for name, its_own in effects.items():
        tools.register(a_tool(name, its_own))
    return tools


def ran(tools: ToolRegistry, name: Any, *, canonical_names: bool = False) -> str | None:
    """The name of the tool that a call of that name would run; None for a failure."""
    found = Resolve(tools, canonical_names=canonical_names)(Call(name))
    return found.tool.name if isinstance(found, ResolvedCall) else None


def refused(tools: ToolView, name: Any, resolve: Resolve | None = None) -> UnknownTool:
    """The error for a model that wrote that name."""
    found = (resolve or Resolve(tools))(Call(name))
    assert isinstance(found, Failure)
    error: UnknownTool = found.failure()
    return error


# --- names that are accepted ------------------------------------------------------------------------------------------

ACCEPTED: dict[str, tuple[str, str, str | None]] = {
    "exact": ("read_file", "read_file", None),
    "alias": ("cat", "read_file", "alias"),
    "control token": ("read_file<|channel|>commentary", "read_file", "transport_noise"),
    "cut control token": ("read_file<|channel", "read_file", "transport_noise"),
    "token with blanks and words": ("read_file <|channel|>commentary json<|message|>", "read_file", "transport_noise"),
    "stray quote": ('read_file"', "read_file", "transport_noise"),
    "blanks in quotes": ("' read_file '", "read_file", "transport_noise"),
    "several tokens": ("read_file<|end|><|start|>assistant<|channel|>final", "read_file", "transport_noise"),
    "token before": ("<|start|>read_file", "read_file", "transport_noise"),
    "prefix": ("functions.read_file", "read_file", "transport_noise"),
    "quotes": ('"read_file"', "read_file", "transport_noise"),
    "blanks": ("  read_file\n", "read_file", "transport_noise"),
    "backquotes and prefix": ("`functions.read_file` ", "read_file", "transport_noise"),
    "alias under noise": ("functions.cat", "read_file", "transport_noise"),
    "another tool's dots": ("functions.fs.list", "fs.list", "transport_noise"),
}


@pytest.mark.parametrize("canonical_names", [False, True])
@pytest.mark.parametrize(("sent", "name", "rule"), [pytest.param(*row, id=key) for key, row in ACCEPTED.items()])
def test_a_certain_name_finds_its_tool(sent: str, name: str, rule: str | None, canonical_names: bool) -> None:
    """A tool is found by its exact name, else a declared alias, else without noise; a change is one repair."""
    tools = holding("fs.list")
    tools.register(a_tool("read_file", aliases=("cat",)))
    found = Resolve(tools, canonical_names=canonical_names)(Call(sent, {"a": 1}, id="c1"))
    assert isinstance(found, ResolvedCall)
    assert found.tool is tools.tools[name]
    assert found.repairs == (() if rule is None else (Repair("name", rule, sent, name),))
    assert (found.name, found.arguments, found.id) == (sent, {"a": 1}, "c1")


def test_an_exact_name_comes_first() -> None:
    """A tool whose own name looks like noise is found under that name."""
    tools = holding("functions.read", "read", '"read"')
    assert [ran(tools, name) for name in tools.tools] == list(tools.tools)


@pytest.mark.parametrize("sent", ["", " ", "functions.", "<|channel|>", '""', "<|<|"])
def test_a_name_of_noise_alone_is_unknown(sent: str) -> None:
    """A name of which nothing is left without its noise finds no tool."""
    assert ran(holding("read"), sent, canonical_names=True) is None


class Named(str):
    """A subclass of str."""

    __slots__ = ()


class Hostile:
    """Raises when it is looked up or shown."""

    def __hash__(self) -> int:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "name", [None, 7, 1.5, b"read", ["read"], {"name": "read"}, {1}, object(), Hostile(), ..., True], ids=type
)
def test_a_name_of_another_type_is_unknown(name: object) -> None:
    """A name that is not text finds no tool; the error lists the tools."""
    error = refused(holding("read"), name)
    assert error == UnknownTool("", (), ("read",))


def test_a_subclass_of_str_is_text() -> None:
    """A name of a subclass of str is read like any text."""
    assert ran(holding("read"), Named("read")) == "read"
    assert refused(holding("read"), Named("raed")).requested == "raed"
    assert refused(holding("read"), Named("raed")).suggestions == ("read",)


@pytest.mark.parametrize("name", ["x" * 10_000, "read_" * 2_000, "<|" * 5_000, "a.b_" * 2_500, "\ud800" * 10_000])
def test_a_name_of_ten_kilobytes_is_unknown(name: str) -> None:
    """A very long name is a failure like any other, and its answer is not kept in memory."""
    tools = holding("read", "write")
    resolve = Resolve(tools, canonical_names=True)
    first = refused(tools, name, resolve)
    assert first.requested == name
    assert refused(tools, name, resolve) is not first


# --- suggestions ------------------------------------------------------------------------------------------------------

FILES = ("read_file", "write_file", "list_files", "delete_file", "search_web", "github__create_issue", "send_email")
HINTS: dict[str, tuple[str, str]] = {
    "typo": ("raed_file", "read_file"),
    "two typos": ("raed_flie", "read_file"),
    "case": ("ReadFile", "read_file"),
    "dashes": ("read-file", "read_file"),
    "squashed": ("readfile", "read_file"),
    "swapped": ("file_read", "read_file"),
    "plural": ("read_files", "read_file"),
    "prefix left out": ("create_issue", "github__create_issue"),
    "another prefix": ("gitlab__create_issue", "github__create_issue"),
    "prefix added": ("mcp__send_email", "send_email"),
    "end cut off": ("send_em", "send_email"),
    "beginning cut off": ("issue", "github__create_issue"),
    "under noise": ("functions.raed_file<|channel|>", "read_file"),
    "token in the middle": ("raed_file<|channel|>x", "read_file"),
    "token instead of a separator": ("read<|channel|>_file", "read_file"),
    "command line": ("list_files -a src/ | head", "list_files"),
    "command line, in another case": ('List-Files "src/read_file"', "list_files"),
    "call": ("list_files('write_file')", "list_files"),
}


@pytest.mark.parametrize(("sent", "meant"), [pytest.param(*row, id=key) for key, row in HINTS.items()])
def test_a_near_name_is_suggested_first_and_not_run(sent: str, meant: str) -> None:
    """A misspelt name runs nothing; the tool that was meant is the first suggestion."""
    error = refused(holding(*FILES), sent)
    assert error.suggestions[0] == meant
    assert len(error.suggestions) <= 3
    assert error.requested == sent


@pytest.mark.parametrize("sent", ["", "x", "zzz", "get_weather", "transfer_money", "计算", "🙂", "commentary", "()"])
def test_nothing_near_is_no_suggestion(sent: str) -> None:
    """A name that is near no tool has no suggestions, for they would mislead."""
    assert refused(holding(*FILES), sent).suggestions == ()


@pytest.mark.parametrize(
    ("names", "sent", "suggestions"),
    [
        (("train.buy", "car.buy", "buy"), "tools.train.buy", ("train.buy",)),
        (("magnetic_field", "electric_field"), "physics__magnetic_field", ("magnetic_field",)),
        (("read", "reads"), "a/b:read", ("read",)),
        (("read", "reads"), "functions.x.read<|channel|>final", ("read",)),
        (("read", "reads"), "x_read", ("read", "reads")),
    ],
)
def test_a_name_without_its_prefix_is_suggested_alone(
    names: tuple[str, ...], sent: str, suggestions: tuple[str, ...]
) -> None:
    """If the sent name is that of a tool behind a prefix, no other tool is suggested beside it."""
    assert refused(holding(*names), sent).suggestions == suggestions


def test_of_tools_with_one_tail_the_whole_name_decides() -> None:
    """If several servers have a tool of one name, the one whose whole name is nearest comes first."""
    tools = holding(*(f"{server}.buy" for server in ("concert_ticket", "musical_ticket", "train_ticket", "stock")))
    assert refused(tools, "tools.train_ticket.buy").suggestions[0] == "train_ticket.buy"
    many = holding(*(f"{letter}_shop.buy" for letter in "abcdefghijklmnop"), "train_ticket.buy")
    assert refused(many, "tools.train_ticket.buy").suggestions[0] == "train_ticket.buy"


@pytest.mark.parametrize(
    ("names", "sent", "suggestions"),
    [
        pytest.param(("invest_money", "withdraw"), "invest", ("invest_money",), id="beginning"),
        pytest.param(("investment_invest", "investment_withdraw"), "invest", ("investment_invest",), id="whole word"),
        pytest.param(("invest_a", "invest_b"), "invest", ("invest_a", "invest_b"), id="several, near as well"),
        pytest.param(("invest_money_now", "invest_time_today"), "invest", (), id="several, and not near"),
        pytest.param(("get_weather", "set_alarm"), "get", (), id="too short to say anything"),
        pytest.param(
            ("a" * 59, "a" * 60 + "_and_much_more_of_it"),
            "a" * 60,
            ("a" * 59, "a" * 60 + "_and_much_more_of_it"),
            id="below a name that is nearly the same",
        ),
    ],
)
def test_a_part_of_one_name_is_suggested(names: tuple[str, ...], sent: str, suggestions: tuple[str, ...]) -> None:
    """A name that was cut short suggests the only tool whose name begins with it or contains its words."""
    assert refused(holding(*names), sent).suggestions == suggestions


def test_a_name_that_ends_in_a_separator_is_no_prefix() -> None:
    """The words behind the last separator are a name of their own, unless there are none."""
    assert [Spelling.of(name).tail for name in ("files__read", "files.read_it", "read_it__")] == [
        "read",
        "readit",
        "readit",
    ]


@pytest.mark.parametrize("sent", ['" read_file', "' read_file", 'read_file "', "` read_file"])
def test_a_quote_beside_a_blank_is_no_noise(sent: str) -> None:
    """It belongs to a command line, of which no part is run."""
    assert ran(holding("read_file"), sent) is None


def test_only_callable_tools_are_named() -> None:
    """Neither suggestions nor the list of tools name a tool that is closed or that a view leaves out."""
    tools = holding("read_file", "read_files", "read_filex")
    tools.disable("read_file")
    tools.pause("read_files")
    error = refused(tools, "raed_file")
    assert (error.suggestions, error.available) == (("read_filex",), ("read_filex",))
    tools.enable("read_file")
    error = refused(tools.view({"read_file", "read_files"}), "raed_file")
    assert (error.suggestions, error.available) == (("read_file",), ("read_file",))


@pytest.mark.parametrize(("count", "listed"), [(0, 0), (1, 1), (20, 20), (21, 0), (500, 0)])
def test_a_short_list_of_tools_is_complete(count: int, listed: int) -> None:
    """Up to twenty callable tools are listed, in their order; of more than twenty none is."""
    names = [f"tool_{place}" for place in range(count)]
    assert refused(holding(*names), "xyz").available == tuple(names[:listed])


def test_closed_tools_do_not_count() -> None:
    """Closed tools do not count towards the twenty that are listed."""
    tools = holding(*(f"tool_{place}" for place in range(21)))
    tools.disable("tool_0")
    assert len(refused(tools, "xyz").available) == 20


# --- canonical names, by option ---------------------------------------------------------------------------------------

CANONICAL: dict[str, tuple[tuple[str, ...], str, str | None]] = {
    "case": (("read_file",), "READ_FILE", "read_file"),
    "dashes": (("read_file",), "read-file", "read_file"),
    "dots": (("read_file",), "read.file", "read_file"),
    "blanks": (("read_file",), "read file", "read_file"),
    "camel": (("read_file",), "readFile", "read_file"),
    "camel, the other way": (("readFile",), "read_file", "readFile"),
    "squashed": (("read_file",), "readfile", "read_file"),
    "under noise": (("read_file",), "functions.Read-File<|channel|>", "read_file"),
    "prefix left out": (("fs__read_file",), "read_file", "fs__read_file"),
    "words with a dot": (("fs.read_file",), "fsReadFile", "fs.read_file"),
    "word before a dot left out": (("fs.read_file",), "ReadFile", None),
    "prefix that says nothing": (("read_file",), "mcp__read_file", "read_file"),
    "prefix that says nothing, and prefix left out": (("fs__read_file",), "tools__readFile", "fs__read_file"),
    "prefix that says nothing, with a colon": (("read_file",), "tools:read_file", None),
    "the server after a prefix that says nothing": (
        ("fs__read_file", "web__read_file"),
        "mcp__fs__read_file",
        "fs__read_file",
    ),
    "the same server, spelt otherwise": (("my-fs__read_file",), "my_fs.read_file", "my-fs__read_file"),
    "another server": (("fs__read_file",), "web__read_file", None),
    "a server where the tool has none": (("read_file",), "web__read_file", None),
    "ambiguous": (("read_file", "ReadFile"), "read-file", None),
    "ambiguous servers": (("fs__read_file", "web__read_file"), "read_file", None),
    "typo": (("read_file",), "raed_file", None),
    "plural": (("read_file",), "read_files", None),
    "swapped": (("read_file",), "file_read", None),
    "part": (("read_file",), "read", None),
    "more": (("read_file",), "read_file_now", None),
}


@pytest.mark.parametrize(("names", "sent", "name"), [pytest.param(*row, id=key) for key, row in CANONICAL.items()])
def test_the_only_canonical_name_is_accepted(names: tuple[str, ...], sent: str, name: str | None) -> None:
    """With the option a name may differ in case, separators and server prefix, if it fits exactly one tool."""
    tools = holding(*names)
    assert ran(tools, sent) is None
    found = Resolve(tools, canonical_names=True)(Call(sent))
    if isinstance(found, ResolvedCall):
        assert found.tool.name == name
        assert found.repairs == (Repair("name", "canonical_name", sent, found.tool.name),)
    else:
        assert name is None


@pytest.mark.parametrize(
    ("effects", "accepted"),
    [
        pytest.param({"delete_user": "mutating"}, True, id="nothing else is near"),
        pytest.param({"delete_user": "mutating", "delete_users": "read"}, False, id="stronger than what is near"),
        pytest.param({"delete_user": "mutating", "delete_users": "keyed"}, False, id="a little stronger"),
        pytest.param({"delete_user": "mutating", "delete_users": "mutating"}, True, id="as strong"),
        pytest.param({"delete_user": "read", "delete_users": "mutating"}, True, id="weaker"),
        pytest.param(
            {"delete_user": "idempotent", "delete_users": "read", "delete_usr": "mutating"}, True, id="not strongest"
        ),
        pytest.param({"delete_user": "mutating", "get_weather": "read"}, True, id="what is weaker is not near"),
    ],
)
def test_a_canonical_name_never_leads_to_a_stronger_effect(effects: dict[str, Effect], accepted: bool) -> None:
    """A canonical name finds no tool that is stronger in effect than every other near name."""
    tools = ToolRegistry()
    for name, effect in effects.items():
        tools.register(a_tool(name, effect, context=effect == "keyed"))
    assert ran(tools, "DeleteUser", canonical_names=True) == ("delete_user" if accepted else None)
    assert "delete_user" in (("delete_user",) if accepted else refused(tools, "DeleteUser").suggestions)


@pytest.mark.parametrize("closed", [False, True])
def test_a_near_name_counts_behind_a_prefix_and_closed(closed: bool) -> None:
    """The weaker tool with a near name may have been meant, also by a name with a prefix, and if it is closed."""
    tools = holding(delete_user="mutating", delete_users="read")
    if closed:
        tools.disable("delete_users")
    assert ran(tools, "mcp__delete_user", canonical_names=True) is None
    assert refused(tools, "mcp__delete_user").suggestions == ("delete_user",)


def test_a_canonical_name_of_a_closed_tool_is_that_tool() -> None:
    """A closed tool is found as well: Available says whether it may be called."""
    tools = holding("read_file")
    tools.disable("read_file")
    assert ran(tools, "ReadFile", canonical_names=True) == "read_file"


# --- remembered answers -----------------------------------------------------------------------------------------------


def test_an_answer_is_remembered_until_something_changes() -> None:
    """A repeated mistake gets the same answer until a tool is closed, opened or registered."""
    tools = holding("read_file", "write_file")
    resolve = Resolve(tools)
    first = refused(tools, "raed_file", resolve)
    assert refused(tools, "raed_file", resolve) is first
    tools.disable("read_file")
    assert refused(tools, "raed_file", resolve).available == ("write_file",)
    tools.enable("read_file")
    assert refused(tools, "raed_file", resolve) == first
    tools.register(a_tool("raed_files"))
    assert refused(tools, "raed_file", resolve).suggestions[0] == "raed_files"
    tools.register(a_tool("raed_file"))
    assert isinstance(resolve(Call("raed_file")), ResolvedCall)


def test_what_a_view_remembers_is_its_own() -> None:
    """A tool that is closed in a view is not suggested there, though an answer was remembered before."""
    tools = holding("read_file", "read_files")
    view = tools.view({"read_file", "read_files"})
    resolve = Resolve(view)
    assert refused(view, "raed_file", resolve).suggestions == ("read_file", "read_files")
    view.disable("read_file")
    assert refused(view, "raed_file", resolve).suggestions == ("read_files",)
    tools.disable("read_files")
    assert refused(view, "raed_file", resolve).suggestions == ()


def test_the_memory_is_bounded() -> None:
    """The answers to the newest 512 names are kept, and no more."""
    tools = holding("read_file")
    resolve = Resolve(tools)
    answers = [refused(tools, f"name_{place}", resolve) for place in range(600)]
    assert refused(tools, "name_599", resolve) is answers[599]
    assert refused(tools, "name_88", resolve) is answers[88]
    assert refused(tools, "name_87", resolve) is not answers[87]


# --- any names --------------------------------------------------------------------------------------------------------

LETTERS = st.text(st.sampled_from("abAB_-. "), min_size=1, max_size=6).filter(lambda text: bool(text.strip()))
WORDS = st.sampled_from(["read", "write", "file", "files", "user", "get", "fs", "web", "functions", "mcp"])
JOINED = st.tuples(st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["_", "-", ".", "__", " ", ""])).map(
    lambda each: each[1].join(each[0])
)
NAMES = st.one_of(LETTERS, JOINED, JOINED.map(str.title), JOINED.map(lambda name: f"functions.{name}<|channel|>x"))


@settings(deadline=None, max_examples=200)
@given(names=st.lists(LETTERS | JOINED, unique=True, max_size=25), closed=st.sets(st.integers(0, 24)), sent=NAMES)
def test_suggestions_are_few_and_callable(names: list[str], closed: set[int], sent: str) -> None:
    """At most three suggestions, all callable and different; the list of tools is complete or empty."""
    tools = holding(*names)
    for place in closed:
        if place < len(names):
            tools.disable(names[place])
    found = Resolve(tools)(Call(sent))
    if isinstance(found, Failure):
        error: UnknownTool = found.failure()
        callable_now = tools.callable_names()
        assert len(error.suggestions) <= 3
        assert len(set(error.suggestions)) == len(error.suggestions)
        assert set(error.suggestions) <= set(callable_now)
        assert error.available == (tuple(callable_now) if len(callable_now) <= 20 else ())


ANYTHING: Any = (
    st.none() | st.integers() | st.floats() | st.binary() | st.text(st.characters(codec=None)) | st.lists(st.text())
)


@settings(deadline=None, max_examples=100)
@given(sent=ANYTHING, canonical_names=st.booleans())
def test_no_name_makes_it_raise(sent: Any, canonical_names: bool) -> None:
    """Whatever a call has as its name, the answer is a tool or a failure."""
    found = Resolve(holding(*FILES), canonical_names=canonical_names)(Call(sent))
    assert isinstance(found, (ResolvedCall, Failure))


def test_only_names_of_the_index_are_suggested() -> None:
    """Only names of the index are suggested, and a name without letters has no suggestions."""
    spellings = {name: Spelling.of(name) for name in FILES}
    assert suggest_names("raed_file", SuggestionIndex(spellings, [])) == ()
    assert suggest_names("raed_file", SuggestionIndex(spellings, ["send_email"])) == ()
    assert suggest_names("___", SuggestionIndex(spellings, FILES)) == ()
    assert suggest_names("read_file", SuggestionIndex({}, ["read_file"])) == ()


@pytest.mark.parametrize("name", ["fs.read", "a tool", "x" * 100])
def test_a_provider_name_finds_its_tool(name: str) -> None:
    """A name that was made for a provider finds its tool, even if the adapter did not restore it."""
    tools = ToolRegistry()
    resolve = Resolve(tools)
    for each in (name, "other"):
        tools.register(a_tool(each))
    (sent,) = {definition["function"]["name"] for definition in openai.tools(tools)} - {"other"}
    found = resolve(Call(sent))
    assert isinstance(found, ResolvedCall)
    assert (found.tool.name, found.repairs) == (name, (Repair("name", "provider_name", sent, name),))
    assert isinstance(resolve(Call("other_0123abcd")), Failure)


OPPOSITES = [
    ("undelete_file", "delete_file"),
    ("undo_changes", "do_changes"),
    ("unlock_door", "lock_door"),
    ("disable_alarm", "enable_alarm"),
    ("import_file", "export_file"),
    ("upload_file", "download_file"),
    ("encryptText", "decryptText"),
    ("no_color_output", "color_output"),
    ("list_users_without_email", "list_users_email"),
    ("deactivate_account", "activate_account"),
]
UNLIKE = [
    ("CalculateIntegral", "CalculateTax"),
    ("freezing_point", "boiling_point"),
    ("get_weather_forecast", "get_stock_forecast"),
]


@pytest.mark.parametrize(("sent", "known"), [*OPPOSITES, *((known, sent) for sent, known in OPPOSITES), *UNLIKE])
def test_no_tool_is_suggested_that_does_the_opposite_or_another_thing(sent: str, known: str) -> None:
    """A name that negates the one that was asked for, or has a word unlike any of its words, is of another tool."""
    assert suggest_names(sent, index_of(known, "other")) == ()


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        ("bash_tool", "bash"),
        ("call_bash", "bash"),
        ("search_web", "web_search"),
        ("create_isue", "create_issue"),
        ("gitlab__create_issue", "github__create_issue"),
        ("mcp__create_issue", "github__create_issue"),
        ("getWeatherForCity", "get_weather"),
        ("read_file_content", "read_file_contents"),
    ],
)
def test_a_name_with_words_that_say_nothing_is_suggested(sent: str, known: str) -> None:
    """A generic word, another order, a slip in a word and another prefix do not keep a tool from being suggested."""
    assert suggest_names(sent, index_of(known, "other")) == (known,)


def index_of(*names: str) -> SuggestionIndex:
    return SuggestionIndex({name: Spelling.of(name) for name in names}, names)
