"""``toolcall report``, ``explain`` and ``replay``: figures, sentences, changes, and hostile values in all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from random import Random
from typing import Annotated, Any

import anyio
import pytest
from click.testing import CliRunner

import journal_tools
from test_journal import record
from toolcall_pipeline import Call, Secret, ToolFailed, ToolRegistry
from toolcall_pipeline.cli.commands import toolcall
from toolcall_pipeline.journal import Journal, JournalFile, explain, read_forms, replay, summarise
from toolcall_pipeline.journal.page import write_page
from toolcall_pipeline.journal.summary import find_next
from toolcall_pipeline.middlewares import Validate, standard
from toolcall_pipeline.stores import SQLite

HERE = Path(__file__).parent


def run(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and what it printed, on both streams."""
    done = CliRunner().invoke(toolcall, [str(each) for each in arguments], catch_exceptions=False)
    return done.exit_code, done.output


async def test_the_report_equals_an_independent_count(tmp_path: Path) -> None:
    """Calls, failures and kinds by tool, of random calls, as their outcomes say."""
    dice = Random(5)
    path = tmp_path / "calls.db"
    calls, failures, kinds = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    async with standard(journal_tools.tools, journal=path, attempts=1) as pipeline:
        for number in range(400):
            name = dice.choice(["add", "find", "nothing", "<b>", "pay"])
            arguments: Any = dice.choice(
                [{"x": 1, "y": 2}, {"name": "none"}, {"name": "a"}, "{", {"amount": 1, "token": "s"}, {}]
            )
            outcome = await pipeline.call(name, arguments, id=str(number), conversation=f"talk {number % 7}")
            tool = name if name in ("add", "find", "pay") else "?"
            calls[tool] += 1
            if (error := getattr(outcome, "failure", None)) is not None and type(outcome).__name__ == "Failure":
                failures[tool] += 1
                kinds[tool, error().kind] += 1
    code, text = run("report", path, "--json")
    found = json.loads(text)
    assert code == 0
    assert (found["calls"], found["failures"]) == (400, failures.total())
    assert set(found["tools"]) == {*calls}
    for tool, tally in found["tools"].items():
        assert (tally["calls"], tally["failures"]) == (calls[tool], failures[tool])
        assert tally["kinds"] == {kind: n for (name, kind), n in kinds.items() if name == tool}
        assert sum(tally["faults"].values()) == tally["failures"]
    assert sum(each["calls"] for each in found["attempts"].values()) == 400
    assert sum(each["calls"] for each in found["principals"].values()) == 400
    followed = sum(sum(steps.values()) for steps in found["next_steps"].values())
    assert followed == failures.total()


async def test_the_tables_and_the_page(tmp_path: Path) -> None:
    """Both hold the tools, the kinds and the shares; the page is whole, and asks for nothing from elsewhere."""
    path, page = tmp_path / "calls.db", tmp_path / "page.html"
    await record(path)
    code, text = run("report", path)
    assert code == 0
    for shown in ("8 calls, 4 failed (50.0%)", "unknown_tool", "after a failure the model", "number_text", "validate"):
        assert shown in text
    assert run("report", path, "--html", page) == (0, "")
    html = page.read_text()
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]  # a parser of one method
    parser.feed(html)
    assert {"html", "table", "style"} <= {*tags}
    assert not {"script", "img", "link", "iframe", "a"} & {*tags}
    assert "http" not in html.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in html


EXPLAINED = [
    ("call_0", ["the model called “add” for ann in the conversation talk", "It succeeded", "The body ran once"]),
    ("call_1", ["The rule number_text repaired “x”: 1 was read as 1"]),
    ("call_2", ["The stage validate decided", "malformed_call", "The body of the tool did not run"]),
    ("call_3", ["“y” broke the rule required", "The model can mend it", "It went on with another tool", "structured"]),
    ("call_4", ["No tool has that name", "Did you mean: add?"]),
    ("call_5", ["not_found", "There is no such thing"]),
    ("call_6", ["The body ran 2 times", "ended as transient", "It was repeated after"]),
    ("call_7", ["[redacted]", "Secrets are masked", "changes something"]),
]


@pytest.mark.parametrize(("call_id", "told"), EXPLAINED)
async def test_explanations(call_id: str, told: list[str], tmp_path: Path) -> None:
    """In sentences: what was sent, repaired, decided, run, told, and done next."""
    path = tmp_path / "calls.db"
    await record(path)
    code, text = run("explain", path, call_id)
    assert code == 0
    for words in told:
        assert words in text, text
    assert "hunter2" not in text
    lines = tmp_path / "calls.jsonl"
    assert run("report", path, "--jsonl", lines) == (0, "")
    assert run("explain", lines, call_id) == (0, text)
    assert run("report", lines, "--json") == run("report", path, "--json")


async def test_a_replay_of_the_same_pipeline_changes_nothing(tmp_path: Path) -> None:
    """No body runs, no retry waits, and nothing is recorded."""
    path = tmp_path / "calls.db"
    forms = await record(path)
    journal_tools.ran.clear()
    found = await replay(standard(journal_tools.tools, journal=tmp_path / "other.db"), forms)
    assert (found.calls, found.replayed, found.changed, found.unmatched) == (8, 6, 0, 0)
    # One names a secret, and one no tool, so that any of its arguments may be one.
    assert dict(found.not_replayable) == {"masked": 2}
    assert found.left_out == ("trace",)
    assert journal_tools.ran == []
    assert not (tmp_path / "other.db").exists()


async def test_what_changes_is_told_by_tool(tmp_path: Path) -> None:
    """A repair that is gone, an attempt that is not made, a name that is accepted, with what ran then as the answer."""
    path = tmp_path / "calls.db"
    forms = await record(path)
    strict = await replay(standard(journal_tools.tools).replace("validate", Validate(repair=())), forms)
    assert dict(strict.tools["add"].changes) == {("success", "validation"): 1}
    assert [each.id for each in strict.tools["add"].examples] == ["call_1"]
    once = await replay(standard(journal_tools.tools, attempts=1), forms)
    assert dict(once.tools["flaky"].changes) == {("success", "transient"): 1}


async def test_a_call_that_did_not_run_then(tmp_path: Path) -> None:
    """It is answered by an equal one that ran, else counted; a read runs if that is asked for."""
    path = tmp_path / "calls.db"
    changed = standard(journal_tools.tools)
    async with standard(journal_tools.tools, journal=path).replace("validate", Validate(repair=())) as pipeline:
        await pipeline.call("add", {"x": "1", "y": 2}, id="refused")
        await pipeline.call("add", {"x": 1, "y": 2}, id="equal")
        await pipeline.call("add", {"x": "5", "y": 2}, id="alone")
    forms = list(read_forms(path)[0])
    journal_tools.ran.clear()
    found = await replay(changed, forms)
    assert dict(found.tools["add"].changes) == {("validation", "success"): 1, ("validation", "no record"): 1}
    assert (found.replayed, found.unmatched, journal_tools.ran) == (3, 1, [])
    asked = await replay(changed, forms, run_reads=True)
    assert dict(asked.tools["add"].changes) == {("validation", "success"): 2}
    assert (asked.ran, asked.unmatched, journal_tools.ran) == (1, 0, ["add"])


async def test_a_replay_of_approvals(tmp_path: Path) -> None:
    """What waited for a person waits again, in a store in memory; that of the application is not written to."""
    rules = tmp_path / "policy.toml"
    rules.write_text('default = "allow"\n[[rules]]\ntool = "pay"\naction = "approve"\n')
    store, path = SQLite(tmp_path / "ledger.db"), tmp_path / "calls.db"
    pipeline = standard(journal_tools.tools, store=store, policy=rules, journal=path)
    async with pipeline:
        await pipeline.call("pay", {"amount": 5, "token": "secret"}, id="a")
        await pipeline.call("find", {"name": "a"}, id="b")
    forms = list(read_forms(path)[0])
    assert [form["kind"] for form in forms] == ["awaiting_approval", None]
    before = read_all(tmp_path / "ledger.db")
    found = await replay(pipeline, [{**form, "masked": False} for form in forms])
    assert (found.replayed, found.changed, found.left_out) == (2, 0, ("trace",))
    assert read_all(tmp_path / "ledger.db") == before


def read_all(path: Path) -> bytes:
    return path.read_bytes()


def test_the_command_replay(tmp_path: Path) -> None:
    """Exit code 1 and the changes, where there are any."""
    path = tmp_path / "calls.db"
    anyio.run(record, path)
    assert run("replay", path, "journal_tools:same")[0] == 0
    code, text = run("replay", path, "journal_tools:strict")
    assert code == 1
    assert "add: 1 of 4 calls changed" in text
    assert "success → validation" in text
    code, text = run("replay", path, "journal_tools:strict", "--json")
    assert json.loads(text)["tools"]["add"]["changes"] == [{"before": "success", "after": "validation", "calls": 1}]


@pytest.mark.long
def test_the_test_of_a_replay(tmp_path: Path) -> None:
    """The test that `replay` writes passes against the pipeline that it named, and fails against another."""
    path, test = tmp_path / "calls.db", tmp_path / "test_recorded.py"
    anyio.run(record, path)
    run("replay", path, "journal_tools:strict", "--pytest", test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", test.name]
    environment = {"PYTHONPATH": f"{HERE.parent}:{HERE / 'support'}", "PATH": ""}
    passed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert passed.returncode == 0, passed.stdout
    test.write_text(test.read_text().replace("import strict", "import same as strict"))
    failed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert failed.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["report", "{tmp}/none.db"], "there is no such file"),
        (["report", "{tmp}/text.db"], "no journal"),
        (["report", "{tmp}/text.jsonl"], "text.jsonl:1: this is no JSON"),
        (["report", "{tmp}/calls.db", "--html", "{tmp}/none/page.html"], "No such file or directory"),
        (["explain", "{tmp}/calls.db", "call_99"], "there is no call call_99"),
        (["explain", "{tmp}/none.db", "call_1"], "there is no such file"),
        (["replay", "{tmp}/calls.db", "journal_tools:nothing"], "has no nothing"),
        (["replay", "{tmp}/calls.db", "journal_tools:broken"], "expected a ToolRegistry"),
        (["replay", "{tmp}/none.db", "journal_tools:same"], "there is no such file"),
        (["call", "journal_tools:same", "add", "{}", "--journal", "{tmp}/text.db"], "no journal"),
    ],
)
def test_bad_input(arguments: list[str], told: str, tmp_path: Path) -> None:
    """One line that says what is wrong, the exit code 2, and nothing is lost."""
    anyio.run(record, tmp_path / "calls.db")
    for name in ("text.db", "text.jsonl"):
        (tmp_path / name).write_text("this is some text\n" * 20)
    code, text = run(*(each.replace("{tmp}", str(tmp_path)) for each in arguments))
    assert code == 2, text
    assert told in text
    assert len([line for line in text.splitlines() if line.strip()]) == 1, text
    assert (tmp_path / "text.db").read_text().startswith("this is some text")
    assert len(list(read_forms(tmp_path / "calls.db")[0])) == 8


def test_the_option_of_call(tmp_path: Path) -> None:
    """Each call of a command is kept, also that of a pipeline with a journal of its own."""
    path = tmp_path / "calls.db"
    for _ in range(2):
        command = [sys.executable, "-m", "toolcall_pipeline", "call", "journal_tools:same", "add", '{"x": 1, "y": 2}']
        environment = {"PYTHONPATH": f"{HERE.parent}:{HERE / 'support'}", "PATH": ""}
        done = subprocess.run([*command, "--journal", str(path)], env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert [form["value"] for form in read_forms(path)[0]] == [3, 3]


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><h1>big</h1>",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "\u202etxt.exe\u2066",
    "\U000e0041\U000e0042 tags",
    "a\x00b\r\n[31m",
    "x" * 1_000_000,
    "'; DROP TABLE calls; --",
    "\ud800 half",
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_values(value: str, tmp_path: Path) -> None:
    """As a name, an argument, an id, a principal, a conversation, a result, an error: shown harmlessly, or masked."""
    tools = ToolRegistry()

    @tools.tool(effect="read")
    async def give(text: str, token: Annotated[str, Secret()]) -> str:
        return f"{text} {token}"

    @tools.tool(effect="read")
    async def fail(text: str) -> str:
        raise ToolFailed(text, suggestion=text)

    path, page = tmp_path / "calls.db", tmp_path / "page.html"
    secret = "tok_" + "5" * 20
    async with standard(tools, journal=path) as pipeline:
        await pipeline.call("give", {"text": value, "token": secret}, id="a", principal=value, conversation=value)
        await pipeline.call("fail", {"text": value}, id="b", principal=value, conversation=value)
        await pipeline.call(value, {value[:10]: value}, id=value, principal=value, conversation=value)
    texts = [run("report", path), run("explain", path, "a"), run("explain", path, "b"), run("explain", path, "#3")]
    assert [code for code, _ in texts] == [0, 0, 0, 0]
    for _, text in texts:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", text)
        assert secret not in text
        assert len(text) < 40_000
    assert run("report", path, "--html", page) == (0, "")
    html = page.read_text()
    assert len(html) < 60_000
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]  # a parser of one method
    parser.feed(html)
    assert not {"script", "img", "h1 "} & {*tags}
    assert tags.count("h1") == 1
    assert secret not in html
    with JournalFile.read(path) as file:
        assert len(list(file)) == 3


def test_an_empty_journal(tmp_path: Path) -> None:
    """It has no calls, and that is no mistake."""
    path = tmp_path / "calls.db"
    JournalFile.open(path).close()
    assert run("report", path)[1].startswith("0 calls, 0 failed")
    assert json.loads(run("report", path, "--json")[1])["tools"] == {}
    assert "no calls" in write_page(summarise([]), "calls.db")


async def test_the_next_step_of_a_model(tmp_path: Path) -> None:
    """Same again, mended, failed again, another tool, gave up: by the calls of one conversation alone."""
    path = tmp_path / "calls.db"
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "add", {"x": 1}),
        ("a", "add", {"x": 1}),  # the same again
        ("a", "add", {"x": "much", "y": 1}),  # failed again
        ("a", "add", {"x": 1, "y": 1}),  # mended
        ("b", "add", {"x": 1}),
        ("c", "ad", {"x": 1, "y": 1}),
        ("b", "find", {"name": "a"}),  # another tool
        ("c", "add", {"x": 1, "y": 1}),  # mended, by a name that was suggested
        ("d", "add", {}),  # gave up
    ]
    async with standard(journal_tools.tools, journal=path) as pipeline:
        for conversation, name, arguments in calls:
            await pipeline.call(name, arguments, conversation=conversation)
    found = summarise(read_forms(path)[0])
    assert {name: dict(steps) for name, steps in found.next_steps.items()} == {
        "add": {"same again": 1, "failed again": 1, "mended": 1, "another tool": 1, "gave up": 1},
        "?": {"mended": 1},
    }
    form = next(iter(read_forms(path)[0]))
    assert any("It sent the same call again" in each for each in explain(form, list(read_forms(path)[0])[:4]))


REPLIES = [  # the calls of a conversation by reply, and the next steps after the names that no tool has
    pytest.param(["ad", "add"], {"mended": 1}, id="the name that was suggested"),
    pytest.param(["ad find", "add"], {"mended": 1}, id="a sibling of the failed call"),
    pytest.param(["find ad", "find add"], {"mended": 1}, id="the right call beside another one"),
    pytest.param(["ad fid", "find add"], {"mended": 2}, id="two failures of one reply"),
    pytest.param(["ad", "find", "add"], {"another tool": 1}, id="another tool first"),
    pytest.param(["ad find"], {"gave up": 1}, id="no reply follows"),
    pytest.param(["ad ad"], {"gave up": 2}, id="twice in one reply"),
]


def keep(value: object, path: str) -> object:
    return value


@pytest.mark.parametrize(("replies", "steps"), REPLIES)
@pytest.mark.parametrize(("redact", "content"), [(None, True), (keep, True), (None, False)])
async def test_the_next_step_is_taken_in_the_next_reply(
    replies: list[str], steps: dict[str, int], redact: Any, content: bool, tmp_path: Path
) -> None:
    """A sibling of a failed call is no step after it, and in the next reply the call that answers it counts.

    The names of tools that were suggested are no content, so a journal without content says the same.
    """
    path = tmp_path / "calls.db"
    journal = Journal(path, content=content)
    arguments = {"add": {"x": 1, "y": 1}, "ad": {"x": 1, "y": 1}, "find": {"name": "a"}, "fid": {"name": "a"}}
    async with standard(journal_tools.tools, journal=journal, redact=redact) as pipeline:
        for number, names in enumerate(replies):
            for name in names.split():
                await pipeline(Call(name, arguments[name], conversation="a", reply=f"r{number}"))
    forms = list(read_forms(path)[0])
    assert dict(summarise(forms).next_steps["?"]) == steps
    failed = next(form for form in forms if form["tool"] is None)
    sentence = {
        "mended": "which succeeded",
        "another tool": "with another tool",
        "gave up": "sent no later call",
    }
    assert any(sentence[next(iter(steps))] in each for each in explain(failed, forms))


def test_a_reply_of_very_many_calls_is_looked_at_in_part() -> None:
    """A model may fail a thousand times in a reply, and the time of a report is not the square of that."""

    def form(reply: str) -> dict[str, Any]:
        return {
            "name": "ad",
            "tool": None if reply == "r0" else "find",
            "reply": reply,
            "error": {},
            "kind": "not_found",
        }

    failed, first = form("r0"), form("r1") | {"name": "find"}
    rest = iter([form("r1") | {"name": "find"} for _ in range(1_000)])
    assert find_next(failed, chain([form("r0")] * 1_000, [first], rest)) is first
    assert len(list(rest)) > 800
