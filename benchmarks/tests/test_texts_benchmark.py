"""The experiment about texts: any OpenAI-compatible endpoint is asked, and answers are kept and counted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks.texts.__main__ import main
from benchmarks.texts.answers import Answer
from benchmarks.texts.cases import KINDS, OURS, Case, read_cases, with_safe_names
from benchmarks.texts.comparison import compare
from benchmarks.texts.endpoint import Endpoint, Reply
from benchmarks.texts.judging import MEASURES, judge
from benchmarks.texts.variants import PROFILES_AND_VERBOSITIES, texts_of
from toolcall_pipeline import Call, SetupError

CASES = read_cases(OURS)
Respond = Callable[[dict[str, Any]], Any]


@contextmanager
def serve(respond: Respond) -> Generator[tuple[str, list[dict[str, Any]]]]:
    """An endpoint on this machine: its URL, and the bodies that it was sent."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append({"path": self.path, **json.loads(self.rfile.read(int(self.headers["Content-Length"])))})
            status, answer = respond(asked[-1])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its own name
            """Keep the output of tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(content: str | None = None, *calls: tuple[str, object]) -> dict[str, Any]:
    tool_calls = [
        {"id": "x", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in calls
    ]
    return {"choices": [{"message": {"role": "assistant", "content": content, "tool_calls": tool_calls}}]}


def value_of(case: Case) -> dict[str, Any]:
    """The right arguments; those that may be left out are."""
    params = case.right[0]["params"]
    return {name: values[0] for name, values in params.items() if "" not in values}


def find(kind: str) -> Case:
    return next(case for case in CASES if case.kind == kind)


# --- cases ---------------------------------------------------------------------------------------------------------
def test_cases() -> None:
    """There are some of each kind in each half, small enough for a repository, and the pipeline refuses each."""
    assert OURS.stat().st_size < 300_000
    for kind in KINDS:
        halves = [case.half for case in CASES if case.kind == kind]
        assert min(halves.count("a"), halves.count("b")) >= 8
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_case(case: Case) -> None:
    """The pipeline refuses it, each variant has a text, and a right answer is judged as one; the first call is not."""
    texts = texts_of(case)
    assert set(texts) == {*PROFILES_AND_VERBOSITIES, "fastmcp", "langgraph", "pydantic-ai"}
    assert all(text.strip() for text in texts.values())
    first = Reply(Call(case.called, case.arguments), "", begun=True)
    assert judge(case, first) == {"right": False, "valid": False, "again": True}
    if not case.right:
        assert judge(case, Reply(None, "I cannot.", begun=False))["right"]


def test_a_right_answer() -> None:
    """Values are compared as BFCL does it: one of several, some may be left out, texts without their marks."""
    case = attrs.evolve(
        find("missing"),
        tools=[{"name": "f", "description": "", "parameters": {"type": "object", "required": ["a"]}}],
        right=[{"tool": "f", "params": {"a": ["New York", 5], "b": ["", [1, 2]], "c": ["", {"d": [1]}]}}],
    )
    for arguments in ({"a": "new-york"}, {"a": 5.0}, {"a": 5, "b": [1, 2]}, {"a": 5, "c": {"d": 1}}):
        assert judge(case, Reply(Call("f", json.dumps(arguments)), "", begun=True))["right"], arguments
    wrongs: list[dict[str, Any]] = [
        {"a": "York"},
        {"a": True},
        {"b": [1, 2]},
        {"a": 5, "b": [2, 1]},
        {"a": 5, "x": 1},
        {"a": 5, "c": {}},
    ]
    for wrong in wrongs:
        assert not judge(case, Reply(Call("f", json.dumps(wrong)), "", begun=True))["right"], wrong
    assert not judge(case, Reply(Call("f", "{"), "", begun=True))["valid"]
    assert not judge(case, Reply(Call("g", {"a": 5}), "", begun=True))["right"]


def test_safe_names() -> None:
    """With safe names no name has a dot, also in the texts of other libraries."""
    case = next(case for case in CASES if "." in case.called and case.kind == "near")
    safe = with_safe_names(case)
    assert "." not in safe.called + "".join(each["name"] for each in safe.tools)
    assert all(case.called not in text for text in safe.peers.values())
    assert any(safe.called in text for text in safe.peers.values())


@pytest.mark.parametrize("text", ["{", '{"id": "x"}', '{"id": "x", "class": "odd"}'])
def test_a_file_without_cases(text: str, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(text)
    with pytest.raises(SetupError):
        read_cases(tmp_path / "cases.jsonl")


# --- endpoints -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_asking_with_tools(path: str) -> None:
    """The endpoint gets the question, the first call, its answer and the tools, and the model's call is read."""
    case = find("missing")
    with serve(lambda _: (200, completion(None, (case.called, value_of(case))))) as (url, asked):
        reply = Endpoint(url + path, "m", key="").ask(case, "the text")
    (body,) = asked
    assert body["path"] == "/v1/chat/completions"
    assert [each["role"] for each in body["messages"]][-3:] == ["user", "assistant", "tool"]
    assert body["messages"][-1]["content"] == "the text"
    assert [each["function"]["name"] for each in body["tools"]] == [each["name"] for each in case.tools]
    assert judge(case, reply) == {"right": True, "valid": True, "again": False}


@pytest.mark.parametrize("begin", ["", '```json\n{"name": "'])
@pytest.mark.parametrize("whole", [True, False], ids=["with the beginning", "without it"])
def test_asking_as_text(begin: str, whole: bool) -> None:
    """The tools stand in the system message, and the call is read whether or not the server repeats how it begins."""
    case = find("missing")
    text = f"```json\n{json.dumps({'name': case.called, 'arguments': value_of(case)})}\n```"
    with serve(lambda _: (200, completion(text if whole else text.removeprefix(begin)))) as (url, asked):
        reply = Endpoint(url, "m", as_text=True, begin=begin, key="").ask(case, "the text")
    (body,) = asked
    assert "tools" not in body
    assert all(each["name"] in body["messages"][0]["content"] for each in case.tools)
    assert body["messages"][-1]["content"] == (begin or "<tool_response>\nthe text\n</tool_response>")
    assert judge(case, reply)["right"]


@pytest.mark.parametrize(
    ("content", "right"),
    [("Sorry, no tool does that.", True), ('```json\n{"name": "cal', False), ('{"name": "f", "arg', False)],
)
def test_no_tool_fits(content: str, right: bool) -> None:
    """A call that was begun is a call, also one that was cut off."""
    case = find("nothing near")
    with serve(lambda _: (200, completion(content))) as (url, _):
        reply = Endpoint(url, "m", as_text=True, begin="```", key="").ask(case, "the text")
    assert judge(case, reply)["right"] is right


# --- the whole -----------------------------------------------------------------------------------------------------
def run(url: str, folder: Path, *options: str) -> tuple[int, Any]:
    figures = folder / "figures.json"
    figures.unlink(missing_ok=True)
    fixed = f"--endpoint {url} --model m --limit 2 --variants default,full,langgraph".split()
    files = ["--answers", str(folder / "answers.jsonl"), "--json", str(figures)]
    code = main([*fixed, "--kinds", "missing,near,nothing near", *files, *options])
    return code, json.loads(figures.read_text()) if figures.exists() else None


def follow_only_langgraph(body: dict[str, Any]) -> tuple[int, Any]:
    case = next(case for case in CASES if case.messages[-1]["content"] == body["messages"][-3]["content"])
    if case.peers["langgraph"] != body["messages"][-1]["content"]:
        return 200, completion(None, (case.called, case.arguments))
    return 200, completion(None, (case.right[0]["tool"], value_of(case))) if case.right else completion("I cannot.")


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that follows one library's text only: the table says so, and a second run asks for nothing."""
    with serve(follow_only_langgraph) as (url, asked):
        code, figures = run(url, tmp_path)
        assert code == 0
        assert figures["shares"]["langgraph"]["all"]["right"] == {"n": 6, "count": 6}
        assert figures["shares"]["default"]["all"]["again"] == {"n": 6, "count": 6}
        difference = figures["differences"]["langgraph"]["right"]
        assert difference == {"points": 100, "low": 100, "high": 100, "won": 6, "lost": 0}
        assert "+100.0 [+100.0, +100.0]  6 : 0" in capsys.readouterr().out
        count = len(asked)
        assert count <= 18  # equal texts of a case are asked for once
        assert run(url, tmp_path) == (0, figures)
        assert len(asked) == count


def test_a_run_goes_on(tmp_path: Path) -> None:
    """After a failure of the endpoint, or a kill in the middle of a line, the rest is asked for."""
    failing = False

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        return (500, {"error": "out of memory"}) if failing else follow_only_langgraph(body)

    with serve(respond) as (url, asked):
        assert run(url, tmp_path, "--kinds", "near")[0] == 0
        failing = True
        assert run(url, tmp_path) == (1, None)
        failing = False
        path = tmp_path / "answers.jsonl"
        path.write_text(path.read_text()[:-20])
        before = len(asked)
        code, figures = run(url, tmp_path)
        assert (code, figures["shares"]["default"]["all"]["right"]["n"], figures["left_out"]) == (0, 6, 0)
        assert len(asked) > before


def test_texts_of_somebody(tmp_path: Path) -> None:
    """Texts of one's own are a variant; the texts of a version can be written, to compare a later one with them."""
    old, renamed = tmp_path / "old.json", tmp_path / "renamed.json"
    with serve(follow_only_langgraph) as (url, asked):
        assert run(url, tmp_path, "--write-texts", str(old)) == (0, None)
        assert asked == []
        renamed.write_text(json.dumps({"mine": json.loads(old.read_text())["langgraph"]}))
        figures = run(url, tmp_path, "--texts", str(renamed), "--variants", "default,mine")[1]
    assert figures["differences"]["mine"]["right"]["points"] == 100


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--variants", "default,nobody"], "unknown variant 'nobody'"),
        (["--endpoint", "localhost:1"], "ENDPOINT must be a URL"),
        (["--cases", "nowhere.jsonl"], "nowhere.jsonl does not hold cases"),
    ],
)
def test_wrong_options(options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("http://127.0.0.1:9", tmp_path, *options)
    assert text in capsys.readouterr().err


def test_the_interval() -> None:
    """Equal variants have no difference; of one that is better in a tenth of the cases the interval holds the tenth."""
    cases = [attrs.evolve(CASES[0], id=str(number)) for number in range(100)]
    measures = dict.fromkeys(MEASURES, False)
    answers = [
        Answer(case.id, variant, "m", "text", "", {**measures, "right": variant == "better" and int(case.id) < 10}, 0)
        for case in cases
        for variant in ("one", "same", "better")
    ]
    found = compare(cases, answers, ["one", "same", "better"], "one", list(MEASURES))
    same, better = found.differences["same"]["right"], found.differences["better"]["right"]
    assert (same.points, same.low, same.high) == (0, 0, 0)
    assert (better.points, better.won, better.lost) == (10, 10, 0)
    assert 3 <= better.low < 10 < better.high <= 18  # of a binomial share: 10 ± 1.96 * 3
