"""``toolcall lint``: findings in a user's tools and texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from error_cases import PROFILES
from support import a_tool
from toolcall_pipeline import Tool, ToolRegistry, render
from toolcall_pipeline.adapters import anthropic, openai
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.cli.demo.demo_tools import build_tools
from toolcall_pipeline.cli.lint.error_texts import list_errors, render_errors
from toolcall_pipeline.cli.lint.lint_command import check_registry
from toolcall_pipeline.cli.lint.source_texts import read_sources
from toolcall_pipeline.cli.lint.tool_findings import TokenCost, estimate_costs
from toolcall_pipeline.engine.errors import ERROR_TYPES
from toolcall_pipeline.messages import Wording

HEAD = """
from typing import Annotated, Any
import toolcall_pipeline
from pydantic import AfterValidator, BaseModel, field_validator
from toolcall_pipeline import (
    Denied, ExecutionFailed, Failure, FailureDetails, NeedsSetup, NeedsUserInput, Problem, ResourceNotFound,
    Stack, Success, Tool, ToolFailed, ToolRegistry, approved,
)
from toolcall_pipeline.middlewares import standard

RAN = []
tools = ToolRegistry()
"""
GOOD = '''
@tools.tool(effect="read")
async def weather(city: str, days: int = 3) -> str:
    """Tell the weather.

    Args:
        city: where
        days: how many of them
    """
    RAN.append(city)
    if not days:
        raise ToolFailed(f"There is no weather for {city}.", suggestion="Ask for at least one day.")
    return city
'''
NUMBERS = count()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that writes a module and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made: list[str] = []

    def write(text: str, head: str = HEAD) -> str:
        made.append(f"lint_shelf_{next(NUMBERS)}")
        (tmp_path / f"{made[-1]}.py").write_text(head + text, encoding="utf-8")
        return made[-1]

    yield write
    for name in made:
        sys.modules.pop(name, None)


def run(*arguments: str, columns: int | None = None) -> Result:
    own = ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS")  # a developer's own may be set
    environment: dict[str, str | None] = dict.fromkeys(own)
    if columns is not None:
        environment["COLUMNS"] = str(columns)
    return CliRunner().invoke(toolcall, ["lint", *arguments], env=environment)


def found(module: str, *options: str) -> list[dict[str, str]]:
    findings: list[dict[str, str]] = json.loads(run(f"{module}:tools", "--json", *options).stdout)["findings"]
    return findings


def test_nothing_to_find(shelf: Any) -> None:
    """Good tools have no findings, with exit code 0 even with --strict, and are not run."""
    module = shelf(GOOD)
    for options in ((), ("--strict",), ("--json",)):
        result = run(f"{module}:tools", *options)
        assert (result.exit_code, result.stderr) == (0, "")
    assert found(module) == []
    assert sys.modules[module].RAN == []


# The source of the module, and the findings in it: severity, rule, tool, a part of what.
TOOLS: dict[str, tuple[str, list[tuple[str, str, str, str]]]] = {
    "no description": (
        """
@tools.tool(effect="read")
async def weather() -> None: ...
""",
        [("error", "description", "weather", "the tool has no description")],
    ),
    "parameters without a description": (
        """
@tools.tool(effect="read")
async def weather(city: str, days: int) -> None:
    "Tell it."
""",
        [("warning", "description", "weather", "without a description: city, days")],
    ),
    "parameters without a type": (
        """
@tools.tool(effect="read")
async def weather(city, days: Any, at: int) -> None:
    "Tell it.\\n\\nArgs:\\n    city: c\\n    days: d\\n    at: a"
""",
        [("warning", "type", "weather", "without a type: city, days")],
    ),
    "fields without a type": (
        """
SCHEMA = {"properties": {"q": {"description": "q", "type": "object", "properties": {"r": {}}}}}
tools.register(Tool.from_schema(name="w", description="W.", effect="read", handler=print, parameters=SCHEMA))
""",
        [("warning", "type", "w", "without a type: q.r"), ("note", "source", "", "no source found for w")],
    ),
    "any object": (
        """
tools.register(Tool.from_schema(name="w", description="W.", effect="read", handler=print, parameters=None))
""",
        [("warning", "type", "w", "the tool takes any object"), ("note", "source", "", "no source found for w")],
    ),
    "arrays of nothing": (
        """
async def give(**_: Any) -> None: ...
SCHEMA = {
    "properties": {
        "type": {"description": "a", "type": "array"},
        "b": {"description": "b", "anyOf": [{"type": ["array", "string"]}]},
        "c": {"description": "c", "type": "array", "items": {}},
        "d": {"description": "d", "type": "string", "default": {"type": "array"}},
        "default": {"description": "e", "type": "array", "items": {"type": "array"}},
        "f": {"description": "f", "$ref": "#/$defs/F"},
    },
    "$defs": {"F": {"type": "array"}},
}
tools.register(Tool.from_schema(name="w", description="W.", effect="read", handler=give, parameters=SCHEMA))
""",
        [("note", "schema", "w", "; properties.default.items: items are said to be anything; $defs.F: items are said")],
    ),
    "a name of other characters": (
        """
@tools.tool(effect="read", name="wetter.für", description="Tell it.")
async def weather() -> None: ...
""",
        [("warning", "name", "wetter.für", "OpenAI and Anthropic refuse the name: only letters from a to z")],
    ),
    "a long name": (
        """
@tools.tool(effect="read", name="w" * 65, description="Tell it.")
async def weather() -> None: ...
""",
        [("warning", "name", "w" * 65, "OpenAI refuses the name: it has 65 characters, and 64 are allowed")],
    ),
    "an effect that nobody declared": (
        """
@tools.tool
def send() -> None:
    "Send."

@tools.tool(name="get_it")
async def it() -> None:
    "Get it."

@tools.tool(effect="mutating")
async def list_all() -> None:
    "List, and count who did."
""",
        [
            ("warning", "effect", "send", "the effect is not declared, so no failure is retried"),
            ("warning", "effect", "get_it", "the effect is not declared"),
        ],
    ),
    "an effect that nobody can see": (
        """
def get_a() -> None: ...
def getB() -> None: ...
def put_c() -> None: ...
for each in (get_a, getB, put_c):
    tools.tool(description="It.")(each)
""",
        [
            (
                "warning",
                "effect",
                "get_a",
                "the effect is mutating, so no failure is retried, but the name says that the tool reads",
            ),
            ("warning", "effect", "getB", "the name says that the tool reads"),
        ],
    ),
    "the effect of a schema": (
        """
async def one() -> None: ...
async def two() -> None: ...
NONE = {"type": "object", "properties": {}}
tools.register(Tool.from_schema(name="one", description="1", parameters=NONE, handler=one))
tools.register(Tool.from_schema(name="two", description="2", parameters=NONE, handler=two, effect="mutating"))
""",
        [("warning", "effect", "one", "the effect is not declared")],
    ),
    "a read that changes": (
        """
for name in ("delete_file", "list_updates", "get_set"):
    @tools.tool(effect="read", name=name, description="Do it.")
    async def do() -> None: ...
""",
        [("warning", "effect", "delete_file", "the name says that the tool changes something")],
    ),
    "a check that is not there": (
        """
@tools.tool(effect="mutating", verify_with="list_mail")
def send() -> None:
    "Send."
""",
        [
            (
                "error",
                "verify_with",
                "send",
                "tells the model to check with list_mail, which is not a tool here",
            )
        ],
    ),
    "a tool without a schema": (
        """
class Odd: ...

@tools.tool(effect="read")
def forecast(city: Odd) -> None: ...
"""
        + GOOD,
        [("error", "schema", "forecast", "Odd")],
    ),
    "an exception that a model may read": (
        """
@tools.tool(effect="read", reveal=(KeyError, FileNotFoundError))
def weather() -> None:
    "Tell it."
""",
        [("note", "expect", "weather", "reveal= shows a model the texts of KeyError, FileNotFoundError")],
    ),
    "a status code in a description": (
        """
@tools.tool(effect="read")
def page(url: str) -> None:
    "Tell it.\\n\\nArgs:\\n    url: not one that answers HTTP 404"
""",
        [("error", "text", "page", "the text of the error validation contains a status code")],
    ),
    "an envelope that nothing detects": (
        """
@tools.tool(effect="read")
def page(url: str) -> dict[str, object]:
    "Tell it.\\n\\nArgs:\\n    url: an address"
    if not url:
        return {"ok": False, "error": "no address"}
    return {"ok": True, "data": url}
""",
        [("warning", "envelope", "page", 'it returns its failures, as {"ok": false}')],
    ),
    "an envelope that is detected": (
        """
from toolcall_pipeline import returned_error
@tools.tool(effect="read", detect=returned_error)
def page(url: str) -> dict[str, object]:
    "Tell it.\\n\\nArgs:\\n    url: an address"
    return {"success": False, "error": "no address"}
""",
        [],
    ),
    "a path in a description": (
        """
@tools.tool(effect="read")
def page(path: str) -> None:
    "Tell it.\\n\\nArgs:\\n    path: below /srv/data/pages"
""",
        [("warning", "text", "page", "the text of the error validation contains a path")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), TOOLS.values(), ids=TOOLS)
def test_tools(shelf: Any, text: str, expected: list[tuple[str, str, str, str]]) -> None:
    """Each fault of a tool is one finding, with its severity and what to do about it."""
    findings = found(shelf(text))
    assert [(each["severity"], each["rule"], each["tool"]) for each in findings] == [each[:3] for each in expected]
    for each, (*_, part) in zip(findings, expected, strict=True):
        assert part in each["what"]
        assert each["fix"]


# A statement in a tool's body, and the flaws of each text in it.
EXCEPTION = "an exception's own text"
TEXTS: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "good": ('raise ToolFailed(f"There is no file {x}.")', [()]),
    "status code": ('raise ToolFailed("The server said HTTP 500")', [("status code",)]),
    "two": ('raise ToolFailed("HTTP 404 for http://a.example/b")', [("status code", "url")]),
    "path": ('raise ToolFailed("See /etc/hosts/a")', [("path",)]),
    "class name": ('raise ToolFailed(message="It was a ValueError")', [("class name",)]),
    "suggestion": ('raise ToolFailed("No.", suggestion="Ask at http://a.example/b")', [(), ("url",)]),
    "f-string": ('raise ToolFailed(f"HTTP 500 from {x}")', [("status code",)]),
    "sum": ('raise ToolFailed("HTTP " + "500 from " + x)', [("status code",)]),
    "percent": ('raise ToolFailed("HTTP 500 from %s" % x)', [("status code",)]),
    "format": ('raise ToolFailed("HTTP 500 from {} {b}".format(x, b=x))', [("status code",)]),
    "either": ('raise ToolFailed("Full." if x else "HTTP 500")', [("status code",)]),
    "constant": ("raise ToolFailed(TEXT)", [("status code",)]),
    "approved": ('raise ToolFailed(approved("HTTP 500"))', [("status code",)]),
    "only at run time": ("raise ToolFailed(x)", []),
    "an exception": ("try: y()\n    except OSError as e: raise ToolFailed(str(e))", [(EXCEPTION,)]),
    "an exception in f": ('try: y()\n    except OSError as e: raise ToolFailed(f"No: {e}")', [(EXCEPTION,)]),
    "an exception's attribute": ('try: y()\n    except OSError as e: raise ToolFailed("No: " + e.x)', [(EXCEPTION,)]),
    "an exception, after": ("try: y()\n    except OSError as e: pass\n    raise ToolFailed(str(e))", []),
    "an exception that is approved": ("try: y()\n    except ToolFailed as e: raise ToolFailed(e.message)", []),
    "a status": ('raise ToolFailed(f"It said {x.status_code}.")', [("status code",)]),
    "a type": ('raise ToolFailed(f"It was {type(x).__name__}.")', [("class name",)]),
    "a stack": ("import traceback\n    raise ToolFailed(traceback.format_exc())", [("stack",)]),
    "Failure": ('return Failure("HTTP 500")', [("status code",)]),
    "Failure of an error": ("try: y()\n    except OSError as e: return Failure(e)", []),
    "ExecutionFailed": (
        'return Failure(ExecutionFailed("HTTP 500", FailureDetails("x", "HTTP 501")))',
        [("status code",)] * 2,
    ),
    "ResourceNotFound": ('return Failure(ResourceNotFound(message="HTTP 500"))', [("status code",)]),
    "Denied": ('return Failure(Denied("HTTP 501", "HTTP 500"))', [("status code",)]),
    "NeedsSetup": ('return Failure(NeedsSetup("mail", "HTTP 500"))', [(), ("status code",)]),
    "NeedsUserInput": ('return Failure(NeedsUserInput("HTTP 500?"))', [("status code",)]),
    "Problem": ('return Problem("a", "type", "HTTP 500")', [("status code",)]),
    "by its module": ('raise toolcall_pipeline.ToolFailed("HTTP 500")', [("status code",)]),
    "imported here": ('from toolcall_pipeline import ToolFailed as Oh\n    raise Oh("HTTP 500")', [("status code",)]),
    "a kind of ToolFailed": ('raise Own("HTTP 500")', [("status code",)]),
    "declared by expect": ('raise KeyError("HTTP 500")', [("status code",)]),
    "not declared": ('raise ValueError("HTTP 500")', []),
    "not for a model": ('print("HTTP 500", Denied("HTTP 500"))', []),
    "no name of ours": ('other.ToolFailed("HTTP 500")', []),
}


@pytest.mark.parametrize(("statement", "flaws"), TEXTS.values(), ids=TEXTS)
def test_texts(shelf: Any, statement: str, flaws: list[tuple[str, ...]]) -> None:
    """Each text for a model in the source is checked, and it is a finding if it quotes an exception."""
    source = f'''
TEXT = "HTTP 500"
class Own(ToolFailed): ...
@tools.tool(effect="read", reveal=KeyError)
async def probe(x: Any, y: Any, other: Any) -> Any:
    """Look.

    Args:
        x: x
        y: y
        other: o
    """
    {statement}
'''
    module = shelf(source)
    run(f"{module}:tools")
    sources = read_sources(sys.modules[module].tools)
    assert [each.flaws for each in sources.texts] == flaws
    assert {each.tool for each in sources.texts} <= {"probe"}
    findings = [(each["place"], each["what"]) for each in found(module) if each["rule"] == "text"]
    assert len(findings) == sum(map(len, flaws))
    for text in sources.texts:
        assert all((text.place, True) in ((place, flaw in what) for place, what in findings) for flaw in text.flaws)


def test_validators(shelf: Any) -> None:
    """The messages of a user's own validators are texts for a model too."""
    module = shelf('''
class Mail(BaseModel):
    to: str

    @field_validator("to")
    @classmethod
    def known(cls, value: str) -> str:
        raise ValueError("Nobody at http://a.example/b")

def short(value: str) -> str:
    raise ValueError("HTTP 500")

def other(value: str) -> str:
    raise ValueError("HTTP 500")

@tools.tool(effect="read")
async def probe(mail: Mail, text: Annotated[str, AfterValidator(short)]) -> None:
    """Look."""
''')
    run(f"{module}:tools")
    source = read_sources(sys.modules[module].tools)
    lines = (Path.cwd() / f"{module}.py").read_text(encoding="utf-8").splitlines()
    assert [(each.tool, each.flaws, lines[int(each.place.partition(":")[2]) - 1].strip()) for each in source.texts] == [
        ("", ("url",), 'raise ValueError("Nobody at http://a.example/b")'),
        ("", ("status code",), 'raise ValueError("HTTP 500")'),
    ]


BAD = (
    GOOD
    + '''
@tools.tool
def send_mail(to, text: str) -> None:
    """Send \\x1b[31mmail.

    Args:
        to: whom
    """
    try:
        RAN.append(to)
    except OSError as exc:
        raise ToolFailed(f"No: {exc}")
    raise ToolFailed("HTTP 500 Internal Server Error")

tools.disable("send_mail")
pipeline_of_it = standard(tools)
without = Stack().end(weather)
empty = ToolRegistry()
'''
)
PRINTED = """\
error    send_mail  an error text contains a status code: 'HTTP 500 Internal Server Error' (FILE:38)  say in words \
what happened and what to do
warning  send_mail  parameters without a description: text                                         describe them in \
the docstring under Args:, or in the schema
warning  send_mail  parameters without a type: to                                                  annotate them; \
without a type any value is accepted
warning  send_mail  the effect is not declared, so no failure is retried                        declare \
effect="mutating", "read", "idempotent" or "keyed"
warning  send_mail  an error text contains an exception's own text: 'No: …' (FILE:37)                 write a text of \
your own; nobody knows what an exception will say

2 tools: 1 error, 4 warnings, 0 notes
"""


@pytest.mark.parametrize("target", ["tools", "pipeline_of_it"])
def test_what_is_printed(shelf: Any, target: str) -> None:
    """Each finding is one line: severity, tool, what is wrong, what to do. Then follow the tools, then the sums."""
    module = shelf(BAD)
    result = run(f"{module}:{target}")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    expected = PRINTED.replace("FILE", f"{module}.py").splitlines()
    assert [line.split() for line in lines[:6]] == [line.split() for line in expected[:6]]
    assert lines[6].split() == ["tool", "effect", "OpenAI", "Anthropic"]
    report = check_registry(sys.modules[module].tools)
    for line, row in zip(lines[7:9], report.tools, strict=True):
        assert line.split() == [row.name, row.effect, str(row.cost.openai), str(row.cost.anthropic)]
    assert lines[10] == expected[6]
    assert [line.partition(":")[0] for line in lines[11:]] == [
        "Definitions",
        "Status codes",
        "Your own error texts",
    ]
    assert lines[-1] == "Your own error texts: 4 in 1 file"
    assert "\x1b" not in result.stdout


ASKING = """
asked = standard(tools, wording=toolcall_pipeline.messages.Wording("agentopia"))
house = toolcall_pipeline.messages.Profile("house", {"internal": "Question: Shall I stop?"}, questions=True)
own = standard(tools, wording=toolcall_pipeline.messages.Wording(house))
told = standard(tools, wording=toolcall_pipeline.messages.Wording("rfc015"))
"""


@pytest.mark.parametrize(("target", "wording"), [("asked", "agentopia"), ("own", "house"), ("told", ""), ("tools", "")])
def test_questions_are_counted_where_they_are_asked(shelf: Any, target: str, wording: str) -> None:
    """The share of questions is printed for a pipeline whose profile makes them, by that profile, and for no other."""
    module = shelf(GOOD + ASKING)
    output = run(f"{module}:{target}").stdout
    assert ("questions" in output, "ask a question" in output) == (bool(wording), bool(wording))
    if wording:
        found = sys.modules[module]
        profile = getattr(found, target).wording.profile
        errors = list(list_errors(found.tools.tools["weather"], ["weather"]))
        asked = [render(error, profile=profile, tool="weather").startswith("Question:") for error in errors]
        assert f"words them: {sum(asked) / len(asked):.0%}".replace("%", " %") in output


def test_it_keeps_to_the_width(shelf: Any) -> None:
    """Cells are folded to the width that COLUMNS gives."""
    output = run(f"{shelf(BAD)}:tools", columns=80).stdout
    findings = output.partition("tool  ")[0]
    assert max(len(line) for line in findings.splitlines()) <= 80
    assert "nobody knows what an exception will say" not in findings


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (GOOD, (), 0),
        (BAD, (), 1),
        ('@tools.tool\ndef send() -> None:\n    """Send."""\n', (), 0),
        ('@tools.tool\ndef send() -> None:\n    """Send."""\n', ("--strict",), 1),
        (
            '@tools.tool(effect="read", reveal=KeyError)\ndef look() -> None:\n    """Look."""\n',
            ("--strict",),
            0,
        ),
    ],
    ids=["good", "errors", "warnings", "warnings, strict", "notes, strict"],
)
def test_exit_codes(shelf: Any, text: str, options: tuple[str, ...], code: int) -> None:
    """The exit code is 1 for errors, with --strict also for warnings, and never for notes."""
    module = shelf(text)
    assert run(f"{module}:tools", *options).exit_code == code
    assert run(f"{module}:tools", "--json", *options).exit_code == code


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("{}:nothing", "has no nothing"),
        ("{}_not:tools", "no module named"),
        ("{}:without", "is a Pipeline in which no stage has a ToolRegistry"),
        ("{}", "write MODULE:REGISTRY"),
    ],
)
def test_nothing_to_check(shelf: Any, target: str, error: str) -> None:
    """A target that cannot be loaded is reported in one line, with exit code 2."""
    result = run(target.format(shelf(BAD)))
    assert (result.exit_code, result.stdout) == (2, "")
    assert error in result.stderr


def test_no_tools(shelf: Any) -> None:
    """An empty registry is no error."""
    module = shelf(BAD)
    result = run(f"{module}:empty")
    assert (result.exit_code, result.stdout) == (0, f"{module}:empty has no tools\n")
    assert json.loads(run(f"{module}:empty", "--json").stdout)["tools"] == []


def test_json_adds_up(shelf: Any) -> None:
    """--json contains every finding and every tool, closed ones too, and their sums; no tool is run."""
    module = shelf(BAD + "\nprint('NOISE')\n")
    result = run(f"{module}:tools", "--json")
    assert result.stderr == "NOISE\n"
    whole = json.loads(result.stdout)
    summary, tools = whole["summary"], whole["tools"]
    assert [tool["name"] for tool in tools] == ["weather", "send_mail"]
    for severity in ("error", "warning", "note"):
        assert summary[f"{severity}s"] == sum(each["severity"] == severity for each in whole["findings"])
    for provider in ("openai", "anthropic"):
        assert summary["tokens"][provider] == sum(tool["tokens"][provider] for tool in tools)
    assert summary["errors_told"] == sum(tool["errors"] for tool in tools)
    assert summary["questions"] == sum(tool["questions"] for tool in tools)
    assert (summary["own_texts"], summary["files"], summary["status_codes"]) == (4, 1, 1)
    assert summary["texts"] == len(PROFILES) * summary["errors_told"] + 4
    assert sys.modules[module].RAN == []


def test_cost() -> None:
    """The cost of a tool is a quarter of the characters of its definition as the adapters send it, rounded up."""
    tools = ToolRegistry()
    tools.register(a_tool("plain", description="é" * 9))
    sent = [openai.tools(tools), anthropic.tools(tools)]
    sizes = [len(json.dumps(one, ensure_ascii=False, separators=(",", ":"))) for (one,) in sent]
    assert estimate_costs(tools) == {"plain": TokenCost(*(-(-size // 4) for size in sizes))}


def test_every_kind_is_rendered(shelf: Any) -> None:
    """The errors of a tool are all kinds of the union; InvalidParams occurs once for each parameter."""
    module = shelf(GOOD)
    run(f"{module}:tools")
    tool: Tool[..., Any] = sys.modules[module].tools.tools["weather"]
    errors = list(list_errors(tool, ["weather"]))
    assert {type(error) for error in errors} | {
        type(e) for e in list_errors(a_tool(effect="mutating"), [])
    } == ERROR_TYPES
    assert [(p.path, p.rule) for error in errors for p in getattr(error, "problems", ())] == [
        ("city", "required"),
        ("city", "type"),
        ("days", "type"),
        ("no_such_parameter", "additionalProperties"),
    ]
    texts = render_errors(tool, ["weather"], Wording("agentopia"))
    questions = [render(error, profile="agentopia", tool="weather").startswith("Question:") for error in errors]
    assert (texts.errors, texts.questions, texts.flawed) == (len(errors), sum(questions), ())
    assert texts.questions / texts.errors > 0.8


def test_a_validator_with_a_bug() -> None:
    """A user's validator with a bug does not end the command."""
    tool = a_tool("odd")
    tool.parse = _raises
    assert render_errors(tool, [], Wording()).errors > 10


def _raises(_: object) -> Any:
    raise RuntimeError


def test_our_own_demo(tmp_path: Path) -> None:
    """The demo's tools have no errors, and no text for a model contains a status code."""
    report = check_registry(build_tools(tmp_path))
    assert (report.count("error"), report.status_codes) == (0, 0)
    assert len(report.tools) == 11
    assert report.texts.questions / report.texts.errors > 0.8


def test_source_that_is_no_python(shelf: Any, tmp_path: Path) -> None:
    """A file that cannot be parsed is not checked, and a note says so."""
    module = shelf(GOOD)
    run(f"{module}:tools")
    (tmp_path / f"{module}.py").write_text("(", encoding="utf-8")
    assert read_sources(sys.modules[module].tools).unread == ["weather"]
