"""What the scripted model does: a table of its turns, each with the mistake in it and what has to come of it."""

from __future__ import annotations

from typing import NamedTuple

ASKED = "Is the price of the Aurora lamp in our catalogue still right? If not, correct it and tell Ada."
ANSWER = "It said 49.00 and is 54.00 today. I have corrected it, and one mail about it is on its way to Ada."
FINE = "nothing wrong"
CORRECTED = "corrected after the answer"


class Turn(NamedTuple):
    """One call, as the model writes it."""

    name: str
    arguments: dict[str, object] | str  # text: all of the arguments as JSON text
    mistake: str = FINE  # the model's, or what goes wrong behind a good call
    kind: str = "success"  # what it has to come to: success, or a kind of error
    runs: int = 1  # and after how many attempts; 0: the tool was never run


_THOUGHT: dict[str, object] = {
    "thought": "Find the price, ask for today's, correct the file, write to Ada.",
    "next_thought_needed": True,
}
TURNS = (
    Turn("sequential-thinking", _THOUGHT, "the server's name for the tool's", "unknown_tool", 0),
    Turn("sequential-thinking__sequentialthinking", _THOUGHT, CORRECTED),
    Turn("list_file", {}, "a typo in the name", "unknown_tool", 0),
    Turn("list_files", '{"pattern": "*"}', "all arguments as JSON text"),
    Turn("search_files", {"query": '{"text": "aurora"}'}, "JSON in a string for an object"),
    Turn("read_file", {}, "a required field is missing", "validation", 0),
    Turn("read_file<|channel|>commentary", {"path": "catalogue.md"}, "a control token in the name"),
    Turn("fetch_quote", {"article": "Aurora lamp", "currency": None}, "null for an optional field"),
    Turn("fetch_quote", {"artikel": "Borealis lamp", "currency": 2}, "another name, another type", "validation", 0),
    Turn("fetch_quote", {"article": "Borealis lamp"}, "the backend answers 503, once", runs=2),
    Turn("search_archive", {"text": "Aurora"}, "the tool hangs", "timeout", 3),
    Turn("delete_file", {"path": "catalogue.md"}, "the tool is switched off", "unavailable", 0),
    Turn("write_file", '{"path": "catalogue.md", "text": "# Catalogue\\nAuro', "cut off midway", "malformed_call", 0),
    Turn(
        "write_file",
        {"path": "catalogue.md", "text": "# Catalogue\nAurora lamp: 54.00\nBorealis lamp: 79.00\n"},
        CORRECTED,
    ),
    Turn("find_address", {"name": "Ada"}, "the tool crashes, with a key in its text", "internal"),
    Turn("read_file", {"path": "addresses.csv", "start_line": 2}),
    Turn(
        "send_mail",
        {"to": "ada@example.org", "subject": "Aurora lamp", "body": "It is 54.00 from today."},
        "the connection is lost in flight",
        "outcome_unknown",
    ),
    Turn("list_sent_mail", "", "nothing wrong: looks first, sends no more"),
)
