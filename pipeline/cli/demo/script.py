"""The script of the demo: the calls that the model makes, each with its mistake and the expected outcome."""

from __future__ import annotations

from typing import NamedTuple

QUESTION = "Is the price of the Aurora lamp in our catalogue still right? If not, correct it and tell Ada."
ANSWER = "It said 49.00 and is 54.00 today. I have corrected it, and one mail about it is on its way to Ada."
NO_MISTAKE = "nothing wrong"
CORRECTED = "corrected after the answer"


class ScriptedCall(NamedTuple):
    """One call, as the model writes it."""

    name: str
    arguments: dict[str, object] | str  # a string: all arguments as JSON text
    mistake: str = NO_MISTAKE  # of the model, or what goes wrong behind a correct call
    kind: str = "success"  # the expected outcome: success, or the kind of the error
    runs: int = 1  # expected runs of the tool; 0: it is never run


_THOUGHT: dict[str, object] = {
    "thought": "Find the price, ask for today's, correct the file, write to Ada.",
    "next_thought_needed": True,
}
SCRIPT = (
    ScriptedCall("sequential-thinking", _THOUGHT, "the server's name, not the tool's", "unknown_tool", 0),
    ScriptedCall("sequential-thinking__sequentialthinking", _THOUGHT, CORRECTED),
    ScriptedCall("list_file", {}, "a typo in the name", "unknown_tool", 0),
    ScriptedCall("list_files", '{"pattern": "*"}', "all arguments as JSON text"),
    ScriptedCall("search_files", {"query": '{"text": "aurora"}'}, "JSON text instead of an object"),
    ScriptedCall("read_file", {}, "a required parameter is missing", "validation", 0),
    ScriptedCall("read_file<|channel|>commentary", {"path": "catalogue.md"}, "a control token in the name"),
    ScriptedCall("fetch_quote", {"article": "Aurora lamp", "currency": None}, "null for an optional parameter"),
    ScriptedCall(
        "fetch_quote", {"artikel": "Borealis lamp", "currency": 2}, "a wrong name and a wrong type", "validation", 0
    ),
    ScriptedCall("fetch_quote", {"article": "Borealis lamp"}, "the backend answers 503, once", runs=2),
    ScriptedCall("search_archive", {"text": "Aurora"}, "the tool hangs", "timeout", 3),
    ScriptedCall("delete_file", {"path": "catalogue.md"}, "the tool is switched off", "unavailable", 0),
    ScriptedCall(
        "write_file", '{"path": "catalogue.md", "text": "# Catalogue\\nAuro', "cut off midway", "malformed_call", 0
    ),
    ScriptedCall(
        "write_file",
        {"path": "catalogue.md", "text": "# Catalogue\nAurora lamp: 54.00\nBorealis lamp: 79.00\n"},
        CORRECTED,
    ),
    ScriptedCall("find_address", {"name": "Ada"}, "the tool crashes, with a key in the message", "internal"),
    ScriptedCall("read_file", {"path": "addresses.csv", "start_line": 2}),
    ScriptedCall(
        "send_mail",
        {"to": "ada@example.org", "subject": "Aurora lamp", "body": "It is 54.00 from today."},
        "the connection breaks after sending",
        "outcome_unknown",
    ),
    ScriptedCall("list_sent_mail", "", "nothing wrong: checks, does not send again"),
)
