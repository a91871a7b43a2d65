"""Agent loops of the guides against a server in llama.cpp's dialect: each ends, none dies, no effect happens twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_providers import FakeProvider, client_environment, refuse_chat
from snippets import snippets

ROOT = Path(__file__).parent.parent
LOOPS = {
    f"{name}:{line}": code
    for name in ("README.md", "pipeline/adapters/README.md")
    for line, code in snippets((ROOT / name).read_text())
    if "range(20)" in code and "openai.send_back(openai.calls(reply" in code
}
WRITE = """

@tools.tool
async def write_note(text: str) -> str:
    \"\"\"Write a note.\"\"\"
    with open("effects.txt", "a") as file:
        file.write(text + "\\n")
    return "written"


async def main("""


class LlamaCpp(FakeProvider):
    """A server whose template reads the arguments of the messages that come back, and dies of what is no JSON.

    Its replies are repeated for ever: a model that never ends by itself. Its ids begin anew with each reply.
    """

    def __init__(self, *turns: Any) -> None:
        super().__init__()
        self.turns: Iterator[Any] = iter(turns)
        self.turn: Any = None

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str, bytes]:
        self.requests.append(body)
        for said in body["messages"]:
            for asked in said.get("tool_calls", ()):
                try:
                    arguments = json.loads(asked["function"]["arguments"])
                except ValueError as exc:
                    return self._refuse(500, f"Failed to parse tool call arguments as JSON: {exc}")
                if not isinstance(arguments, dict):
                    return self._refuse(500, "type must be object")
        if why := refuse_chat(body):
            return self._refuse(400, why)
        self.turn = next(self.turns, self.turn)
        message = {"role": "assistant", "content": None, **self.turn}
        reply: dict[str, Any] = {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "object": "chat.completion",
        }
        reply |= {"id": f"chatcmpl-{len(self.requests)}", "created": 1, "model": "m"}
        return 200, "application/json", json.dumps(reply).encode()

    @staticmethod
    def _refuse(status: int, why: str) -> tuple[int, str, bytes]:
        return status, "application/json", json.dumps({"error": {"code": status, "message": why}}).encode()


def asks(arguments: str, name: str = "write_note", id_: str = "0") -> dict[str, Any]:
    return {"tool_calls": [{"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}]}


MILK = '{"text": "milk"}'
COMMA = '{"text": "milk",}'  # read as what it means
END = {"content": "Done."}
AS_TEXT = {"content": f'```json\n{{"name": "write_note", "arguments": {MILK}}}\n```'}
TALKS: dict[str, list[Any]] = {
    "no JSON, then right": [asks('{"text":'), asks(MILK), END],
    "a trailing comma": [asks(COMMA), END],
    "prose": [asks("milk"), asks(MILK), END],
    "nothing": [asks(""), asks(MILK), END],
    "a list": [asks("[1]"), asks(MILK), END],
    "never JSON": [asks('{"text":')],
    "ids begun anew": [asks('{"text": [5]}'), asks("{}"), asks(MILK), END],
    "no id": [asks(MILK, id_=""), END],
    "the same for ever": [asks(MILK)],
    "the same for ever, a read": [asks('{"path": "notes.txt"}', "read_file")],
    "the same failure for ever": [asks('{"path": "gone.txt"}', "read_file")],
    "a name that no tool has, for ever": [asks(MILK, "write_nothing")],
    "as text": [AS_TEXT, END],
    "as text for ever": [AS_TEXT],
}


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param(turns, marks=pytest.mark.long if "for ever" in name else (), id=name)
        for name, turns in TALKS.items()
    ],
)
@pytest.mark.parametrize("code", LOOPS.values(), ids=LOOPS)
def test_each_loop_ends(
    code: str, turns: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the model does, the program ends, without an exception, and the note is written at most once."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("milk\n")
    program = compile(code.replace("\n\nasync def main(", WRITE, 1), "loop.py", "exec", dont_inherit=True)
    with LlamaCpp(*turns) as server:
        for name, value in client_environment(server).items():
            monkeypatch.setenv(name, value)
        exec(program, {"__name__": "__main__"})  # a program of our guides
    written = Path("effects.txt").read_text() if Path("effects.txt").exists() else ""
    is_asked = any(each in (asks(MILK), asks(MILK, id_=""), asks(COMMA)) for each in turns)
    is_read = AS_TEXT in turns and "text=True" in code
    assert written == ("milk\n" if is_asked or is_read else "")
    assert len(server.requests) <= 20
    told = capsys.readouterr().out.splitlines()  # one line more where a refused call came again and again
    assert len([line for line in told if not line.startswith("This is the same call again")]) <= 4


def test_the_loops_are_found() -> None:
    """The program of the README on top, and that of the guide to adapters."""
    assert len(LOOPS) == 2
