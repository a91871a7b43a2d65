"""The calls that every subject is sent, and what a good answer is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.peers.functions import SECRET_OF_THE_USER

AT_ONCE = 1000


class Sent(NamedTuple):
    """A call as a model writes it."""

    name: str
    arguments: str  # JSON text

    @property
    def mapping(self) -> dict[str, Any]:
        """The arguments, for what takes no text."""
        return dict(json.loads(self.arguments))


class Scenario(NamedTuple):
    """Some calls that are sent in one message.

    Args:
        key: Its name in the results.
        label: Its name in the table.
        calls: The calls.
        answer: The text that the model gets if the call can succeed; None: it cannot.
        done: How often the tool may take effect, all in all.
        traced: Whether a provider is set that records all spans.
        refused: Whether the backend of the tool refuses the first attempt.
    """

    key: str
    label: str
    calls: Sequence[Sent]
    answer: str | None
    done: int
    traced: bool = False
    refused: bool = False


SCENARIOS = (
    Scenario("success", "success", [Sent("add", '{"a": 2, "b": 3}')], "5", 1),
    Scenario("unknown_name", "unknown name", [Sent("ad", '{"a": 2, "b": 3}')], None, 0),
    Scenario("bad_parameter", "bad parameter", [Sent("add", '{"a": "two", "b": 3}')], None, 0),
    Scenario("json_text", "JSON text", [Sent("walk", json.dumps({"to": '{"x": 2, "y": 3}'}))], "5", 1),
    Scenario("raising_tool", "raising tool", [Sent("crash", '{"a": 1}')], None, 0),
    Scenario("503_once", "503 once", [Sent("look_up", '{"a": 5}')], "5", 1, refused=True),
    Scenario("lost_answer", "answer lost", [Sent("pay", '{"a": 5}')], None, 1),
    Scenario("at_once", "1,000 at once", [Sent("wait", '{"a": 2, "b": 3}')] * AT_ONCE, "5", AT_ONCE),
    Scenario("traced", "traced", [Sent("measure", json.dumps({"name": SECRET_OF_THE_USER}))], "21", 1, traced=True),
    Scenario("traced_crash", "traced, raising", [Sent("crash", '{"a": 1}')], None, 0, traced=True),
)
BY_KEY = {each.key: each for each in SCENARIOS}
