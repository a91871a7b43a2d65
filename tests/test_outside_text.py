"""Text from outside: what a terminal obeys, forges a line or hides is escaped in logs, in terminals and in rows."""

from __future__ import annotations

import json
import logging
import pickle
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from support import Exported, a_tool, nothing
from toolcall_pipeline import Tool, ToolFailed, ToolRegistry, neutralise
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.executors.remote_errors import RemoteTraceback, decode_error, encode_error
from toolcall_pipeline.middlewares import Trace, standard
from toolcall_pipeline.privacy import cut_traceback, dump_neutral_json, escaping, get_logger, make_safe
from toolcall_pipeline.privacy.secret_places import show_paths
from toolcall_pipeline.telemetry.span_tree import draw_tree

# Of each family: C0, CSI, OSC, DEL, C1, line ends, bidi, zero-width, tags, variation selectors, fillers, surrogates.
NASTY = (
    "a\x00\x1b[2J\x1b]0;owned\x07\x7f\x85\x9b31m\r\nERROR forged\n\x0b\x0c\u2028\u2029\u202e\u2066\u200b\u200d\u2060"
    "\ufeff\u00ad\u061c\U000e0041\U000e007f\ufe01\U000e0101\u115f\u3164\u2800\ud800-\udfffz"
)
HIDDEN = set("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def is_unsafe(char: str, kept: str = "") -> bool:
    """An oracle of its own, by Unicode's categories."""
    if char in kept:
        return False
    selector = unicodedata.name(char, "").startswith(("VARIATION SELECTOR", "MONGOLIAN FREE VARIATION SELECTOR"))
    return selector or char in HIDDEN or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def find_unsafe(text: str, kept: str = "") -> set[str]:
    return {char for char in text if is_unsafe(char, kept)}


TEXT = st.text(st.characters(codec=None)) | st.lists(st.sampled_from(NASTY)).map("".join)


@given(TEXT, st.booleans())
def test_nothing_unsafe_is_left(text: str, keep_lines: bool) -> None:
    """No unsafe character is left, what was safe stays, and a second time changes nothing."""
    safe = neutralise(text, keep_lines=keep_lines)
    kept = "\n\t" if keep_lines else ""
    assert find_unsafe(safe, kept) == set()
    assert neutralise(safe, keep_lines=keep_lines) == safe
    if not find_unsafe(text, kept) and text.isprintable():
        assert safe == text


@given(TEXT, st.integers(0, 20))
def test_a_limit_bounds_the_text(text: str, limit: int) -> None:
    """At most ten characters stand for one, and a cut text says that it is cut."""
    safe = neutralise(text, limit=limit)
    assert len(safe) <= 10 * limit + 1
    assert safe.endswith("…") or len(text) <= limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Grüße, 東京 👍", "Grüße, 東京 👍"),
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\u202eb", r"a\u202eb"),
        ("\U000e0041", r"\U000e0041"),
        ("❤\ufe0f", r"❤\ufe0f"),
        ("a\u00a0b\u3000c", "a b c"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_it_becomes(text: str, expected: str) -> None:
    """Each unsafe character becomes its escape, and other spaces become blanks."""
    assert neutralise(text) == expected


def test_a_table_remembers_ten_thousand_characters() -> None:
    """It is filled as characters occur; what it does not remember becomes the same as what it does."""
    escape: Any = vars(escaping)["_Table"]("<{}>".format, frozenset("\n"), spaces=True)
    text = "\n" + "".join(map(chr, range(0x1000, 0x4000)))
    assert text.translate(escape) == text.translate(escape)
    assert len(escape) == 10_000


def test_lines_may_stay() -> None:
    """With ``keep_lines`` line ends and tabs stay, and a carriage return does not."""
    assert neutralise("a\r\nb\tc\rd\n", keep_lines=True) == "a\nb\tc\\rd\n"


JSON: Any = st.recursive(TEXT | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


@given(JSON, st.sampled_from([None, 2]))
def test_json_stays_what_it_was(value: Any, indent: int | None) -> None:
    """JSON has nothing unsafe in it, and reads back as the same value."""
    text = dump_neutral_json(value, indent=indent)
    assert find_unsafe(text, "" if indent is None else "\n") == set()
    assert json.loads(text) == json.loads(json.dumps(value))  # JSON joins the two halves of a surrogate pair


class Log(logging.Handler):
    """A log file, and its records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.file = StringIO()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.file.write(self.format(record) + "\n")

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    logger, handler = logging.getLogger("toolcall_pipeline"), Log()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


NOTHING: dict[str, object] = {}


def raise_plain() -> object:
    raise ValueError(NASTY)


def raise_with_notes() -> object:
    error = RuntimeError(NASTY)
    for _ in range(100):
        error.add_note(NASTY)
    raise error


def raise_from() -> object:
    try:
        return NOTHING[NASTY]
    except KeyError as exc:
        raise ValueError(NASTY) from exc


def raise_in_handling() -> object:
    try:
        return NOTHING[NASTY]
    except KeyError:
        raise ValueError(NASTY)  # noqa: B904  # this is what is tested


def raise_group() -> object:
    inner = ExceptionGroup(NASTY, [ValueError(NASTY)])
    several: list[Any] = [*(ValueError(NASTY) for _ in range(100)), inner]
    raise ExceptionGroup(NASTY, several)


def raise_deep_group() -> object:
    error: Any = ValueError(NASTY)
    for _ in range(200):
        error = cast("Any", ExceptionGroup(NASTY, [error]))
    raise error


def raise_long_chain() -> object:
    error: Exception = ValueError(NASTY)
    for number in range(3_000):
        outer = ValueError(f"{number} {NASTY}")
        outer.__cause__ = error
        error = outer
    raise error


def raise_long_context() -> object:
    error: Exception = ValueError(NASTY)
    for number in range(3_000):
        outer = ValueError(f"{number} {NASTY}")
        outer.__context__ = error
        error = outer
    raise error


def raise_ring() -> object:
    error, other = ValueError(NASTY), ValueError(NASTY)
    error.__cause__, other.__cause__ = other, error
    raise error


def raise_long_text() -> object:
    raise ValueError(NASTY * 10_000)


def raise_syntax_error() -> object:
    raise SyntaxError(NASTY, (NASTY, 1, 1, NASTY))


def raise_unnamed() -> object:
    raise type(f"Bad{NASTY.encode('ascii', 'ignore').decode()}".replace("\x00", ""), (Exception,), {})(NASTY)


def raise_without_text() -> object:
    class Untold(Exception):
        def __str__(self) -> str:
            raise RuntimeError(NASTY)

    raise Untold


def raise_deep() -> object:
    def again(left: int) -> object:
        if left:
            return other(left - 1)
        raise ValueError(NASTY)

    def other(left: int) -> object:
        return again(left)

    return again(150)


def raise_elsewhere() -> object:
    try:
        return raise_from()
    except ValueError as exc:
        raise decode_error(encode_error(exc, pickle.dumps)) from RemoteTraceback(f"Traceback\n{NASTY}")


def raise_lost() -> object:
    raise ConnectionError(NASTY)


def raise_failed() -> object:
    raise ToolFailed(NASTY)


RAISES: tuple[Callable[[], object], ...] = (
    raise_plain,
    raise_with_notes,
    raise_from,
    raise_in_handling,
    raise_group,
    raise_deep_group,
    raise_long_chain,
    raise_long_context,
    raise_ring,
    raise_long_text,
    raise_syntax_error,
    raise_unnamed,
    raise_without_text,
    raise_deep,
    raise_elsewhere,
    raise_lost,
    raise_failed,
)
FORGED = re.compile(r"^(ERROR|WARNING) (?!Tool '|A listener failed|x)", re.MULTILINE)


@pytest.mark.parametrize("act", RAISES, ids=lambda act: act.__name__)
async def test_no_exception_forges_a_line(act: Callable[[], object], log: Log) -> None:
    """Whatever a tool raises, each line of the log is ours, safe to print, and the record is of limited length."""
    tools = ToolRegistry()

    def probe(**_: object) -> object:
        return act()

    tools.register(a_tool(fn=probe))
    await standard(tools, attempts=1).call("probe", id=NASTY * 1_000)
    text = log.file.getvalue()
    assert find_unsafe(text, "\n") == set()
    assert FORGED.search(text) is None
    assert len(text) < 100_000
    assert sum(line.startswith(("ERROR ", "WARNING ")) for line in log.lines) == 1
    for record in log.records:
        assert find_unsafe(record.__dict__["gen_ai.tool.call.id"]) == set()
        assert len(record.__dict__["gen_ai.tool.call.id"]) <= 10 * 200 + 1


async def test_every_text_of_a_call_is_escaped(log: Log) -> None:
    """Names, ids, keys, reasons, notes and a listener's exception are escaped in the log, in each of its records."""
    tools = ToolRegistry()
    tools.register(a_tool())

    @tools.tool(effect="read")
    async def add(a: int) -> int:
        return a

    def listen(report: object) -> None:
        raise RuntimeError(NASTY)

    pipeline = standard(tools).replace("trace", Trace(sinks=[listen]))
    await pipeline.call(NASTY, {NASTY: NASTY}, id=NASTY, principal=NASTY)
    await pipeline.call("add", {NASTY: NASTY, "a": NASTY}, id=NASTY)
    await pipeline.call("add", NASTY, id=NASTY)
    tools.pause("probe", retry_after=3)
    await pipeline.call("probe", id=NASTY)
    assert len([record for record in log.records if record.name == "toolcall_pipeline"]) == 8
    for record in log.records:
        texts = [record.getMessage(), *(str(value) for key, value in vars(record).items() if key != "exc_info")]
        assert find_unsafe("".join(texts), "\n") == set()
    assert find_unsafe(log.file.getvalue(), "\n") == set()
    assert FORGED.search(log.file.getvalue()) is None


def test_a_record_of_our_logger_is_safe_by_itself(log: Log) -> None:
    """Whoever logs with a logger of the library need not think of it."""
    get_logger().error("x %s", NASTY, exc_info=ValueError(NASTY), extra={"any": NASTY, "number": 1})
    get_logger().error("x %(a)s", {"a": NASTY})
    assert find_unsafe(log.file.getvalue(), "\n") == set()
    assert log.records[0].__dict__["number"] == 1


def test_the_library_has_no_other_loggers() -> None:
    """Every logger of the library is one whose records are made safe."""
    root = Path(__file__).parent.parent
    files = {file.resolve() for folder in ("pipeline", "middlewares") for file in (root / folder).rglob("*.py")}
    having = {path.name for path in files if "getLogger" in path.read_text()}
    # The second and third only listen, and the last two keep another library from writing.
    others = {"demo_command.py", "log_export.py", "proxy_command.py", "gateway_command.py"}
    assert having == {"safe_logs.py", *others}


def test_a_crash_keeps_its_name_and_its_stack() -> None:
    """The stand-in of an exception has its name, its module and the frames in which it was raised."""
    with pytest.raises(ValueError, match="owned") as caught:
        raise_from()
    safe = make_safe(caught.value)
    assert (type(safe).__name__, type(safe).__module__) == ("ValueError", "builtins")
    assert type(safe.__cause__).__name__ == "KeyError"
    assert safe.__traceback__ is not None
    assert safe.__traceback__.tb_frame.f_code.co_name == "test_a_crash_keeps_its_name_and_its_stack"
    assert make_safe(safe) is safe


def test_a_long_chain_keeps_both_ends() -> None:
    """Of 3,000 causes the nearest stay, and those where it began; a note says that others are left out."""
    error: BaseException = ValueError("the root")
    for number in range(3_000):
        error, before = ValueError(number), error
        error.__cause__ = before
    texts: list[str] = []
    found: BaseException | None = make_safe(error)
    notes = 0
    while found is not None:
        texts.append(str(found))
        notes += len(getattr(found, "__notes__", ()))
        found = found.__cause__
    assert texts == ["2999", "2998", "2997", "2996", "2995", "2994", "3", "2", "1", "0", "the root"]
    assert notes == 1


def test_a_long_traceback_keeps_both_ends() -> None:
    """Of many frames the first and the last stay."""
    with pytest.raises(ValueError, match="owned") as caught:
        raise_deep()
    traceback, last = cut_traceback(caught.value.__traceback__), caught.value.__traceback__
    assert last is not None
    assert traceback is not None
    frames = [traceback]
    while frames[-1].tb_next is not None:
        frames.append(frames[-1].tb_next)
    while last.tb_next is not None:
        last = last.tb_next
    assert len(frames) == 30
    assert frames[-1].tb_lineno == last.tb_lineno


def test_a_stack_of_another_process_keeps_its_lines() -> None:
    """The stack that a worker sent has several lines, each of them indented and safe."""
    text = str(make_safe(RemoteTraceback(f"Traceback:\n{NASTY}\nERROR forged")))
    assert text.count("\n") > 2
    assert find_unsafe(text, "\n") == set()
    assert all(line.startswith("    ") for line in text.splitlines()[1:])


MODULE = f"""
from toolcall_pipeline import Tool, ToolRegistry
NASTY = {NASTY.encode(errors="ignore").decode()!r}  # a schema with half a surrogate pair does not compile
tools = ToolRegistry()
async def probe(**arguments):
    if arguments:
        raise ValueError(NASTY)
    return NASTY
schema = {{"type": "object", "properties": {{
    NASTY: {{"type": "string", "description": NASTY, "default": NASTY}},
    "b": {{"enum": [NASTY], "format": NASTY, "title": NASTY}},
}}}}
tools.register(Tool.from_schema(name="probe", parameters=schema, handler=probe, description=NASTY, effect="read"))
tools.register(Tool.from_schema(name="a" + NASTY, parameters=None, handler=probe, description=NASTY))
def broken():
    raise RuntimeError(NASTY)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"nasty_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return name


@pytest.mark.parametrize(
    "arguments",
    [
        ("tools", "{}:tools"),
        ("tools", "{}:tools", "--json"),
        ("tools", "{}:broken"),
        ("lint", "{}:tools"),
        ("lint", "{}:tools", "--json"),
        ("lint", "{}:broken"),
    ],
    ids=" ".join,
)
def test_a_command_prints_nothing_unsafe(module: str, arguments: tuple[str, ...]) -> None:
    """Names, descriptions, defaults, enums and exceptions of foreign tools are escaped in what a command prints."""
    result = CliRunner().invoke(toolcall, [each.format(module) for each in arguments])
    assert result.output
    assert find_unsafe(result.output, "\n") == set()
    assert "owned" in result.output


def test_a_run_writes_nothing_unsafe(module: str) -> None:
    """The rows of a run are safe to print, and read back as what they are."""
    lines: list[dict[str, Any]] = [
        {"id": NASTY, "name": "probe"},
        {"id": NASTY, "name": NASTY, "arguments": {NASTY: NASTY}},
        {"id": NASTY, "name": "probe", "arguments": {"b": NASTY}},
        {"id": NASTY, "name": "probe", "arguments": {"b": 1}},
        {"id": [NASTY], "name": NASTY},
    ]
    Path("calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(toolcall, ["run", f"{module}:tools", "calls.jsonl", "-o", "results.jsonl"])
    assert result.exit_code == 1, result.output
    rows = Path("results.jsonl").read_bytes().decode()
    assert find_unsafe(rows, "\n") == set()
    assert find_unsafe(result.output, "\n") == set()
    found = {row["line"]: row for row in map(json.loads, rows.splitlines())}
    assert [found[number]["ok"] for number in range(1, 6)] == [True, False, False, False, False]
    assert found[1]["id"] == NASTY


def test_a_span_tree_is_safe_to_print() -> None:
    """Names and reasons of spans, which any library makes, are escaped in the tree."""
    exported = Exported()
    tracer = exported.provider.get_tracer("any")
    with tracer.start_as_current_span(NASTY, attributes={"toolcall.reason": NASTY, "toolcall.repairs": [NASTY]}):
        pass
    tree = draw_tree(exported.spans)
    assert find_unsafe(tree) == set()
    assert tree.count("owned") == 3


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "a.b": {"type": "integer"},
        "amounts": {"type": "object", "additionalProperties": {"type": "number"}},
        "users": {"type": "object", "additionalProperties": {"$ref": "#/$defs/user"}},
        "filter": {"anyOf": [{"$ref": "#/$defs/user"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/user"}},
        "free": {"type": "object"},
        "untyped": {"items": {"$ref": "#/$defs/user"}},
        "pair": {"prefixItems": [{"$ref": "#/$defs/user"}, {"type": "integer"}]},
    },
    "$defs": {"user": {"type": "object", "properties": {"age": {"type": "integer"}, "of": {"$ref": "#/$defs/user"}}}},
}
MADE_UP = "IBAN DE89 3704"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", ""),
        ("to", "to"),
        ("a.b", "a.b"),
        (MADE_UP, "*"),
        (f"to.{MADE_UP}", "to.*"),
        (f"amounts.{MADE_UP}", "amounts.*"),
        ("amounts.a.b[3]", "amounts.*"),
        (f"users.{MADE_UP}.age", "users.*.age"),
        (f"users.a.{MADE_UP}.of.age", "users.*.of.age"),
        (f"users.{MADE_UP}.{MADE_UP}", "users.*"),
        ("filter.age", "filter.age"),
        (f"filter.{MADE_UP}", "filter.*"),
        ("filter.of.of.age", "filter.of.of.age"),
        ("tags[12].age", "tags[12].age"),
        (f"tags[0].{MADE_UP}", "tags[0].*"),
        ("untyped[3].age", "untyped[3].age"),
        ("pair[0].of.age", "pair[0].of.age"),
        (f"free.{MADE_UP}", "free.*"),
        (f"to[{MADE_UP}]", "to.*"),
        ("to[4111]", "to.*"),
        (MADE_UP * 100_000, "*"),
        ("users." + "x." * 100_000 + "age", "users.*"),
    ],
)
def test_a_path_shows_declared_names_only(path: str, shown: str) -> None:
    """A name that the model made up is content, and becomes ``*``."""
    assert show_paths(SCHEMA, [path])[0] == shown
    assert show_paths(None, [path])[0] == ("*" if path else "")


DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/any"}},
    "$defs": {
        "any": {
            "type": ["object", "array"],
            "properties": {"a": {"$ref": "#/$defs/any"}},
            "items": {"$ref": "#/$defs/any"},
        }
    },
}


@pytest.mark.parametrize("step", [".a", "[0]", ".a[0]", "[0].a"])
def test_a_path_is_read_to_its_sixteenth_level(step: str) -> None:
    """What is deeper is not shown, so that a path that the model made up takes no time."""
    shown = f"a{step * (14 // len(re.findall('a|0', step)))}"
    assert show_paths(DEEP, [shown])[0] == shown
    deeper = show_paths(DEEP, [f"a{step * 20}"])[0]
    assert deeper.endswith(".*")
    assert deeper.count("a") + deeper.count("[") == 16


@given(
    st.lists(st.sampled_from(["to", "users", "age", "of", "tags", "[1]", "[", ".", "]", "canary", "a.b"])).map("".join)
)
def test_no_path_shows_what_is_not_declared(path: str) -> None:
    """Whatever a path is made of, only declared names, indexes and stars are shown, and it is short."""
    shown = show_paths(SCHEMA, [path])[0]
    assert "canary" not in shown
    assert len(shown) <= 128
    names = {*SCHEMA["properties"], "age", "of", "*", ""}
    assert {re.sub(r"\[\d+\]", "", each) for each in shown.replace("a.b", "to").split(".")} <= names


async def test_spans_and_logs_hold_declared_names_only(log: Log) -> None:
    """Keys of arguments that the model made up are in neither spans nor logs, in repairs as in problems."""
    exported, tools = Exported(), ToolRegistry()
    tools.register(Tool.from_schema(name="pay", parameters=SCHEMA, handler=nothing, effect="read"))

    @tools.tool(effect="read")
    async def add(amounts: dict[str, int], to: str = "x") -> None:
        pass

    pipeline = standard(tools).replace("trace", Trace(tracer_provider=exported.provider))
    many = {f"{MADE_UP}{number}": str(number) for number in range(100)}
    await pipeline.call("add", {"amounts": many})
    await pipeline.call("add", {"amounts": {MADE_UP: "x"}, f"password={MADE_UP}": 1})
    await pipeline.call("pay", {"amounts": many, f"password={MADE_UP}": 1})
    spans = [span.to_json() for span in exported.spans]
    assert MADE_UP not in "".join(spans) + log.file.getvalue()
    repaired = [each for span in exported.spans if (each := dict(span.attributes or {}).get("toolcall.repairs"))]
    assert "amounts.*: number_text" in str(repaired)
    assert max(len(str(each)) for each in repaired) < 3_000
