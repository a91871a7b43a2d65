"""The words that people search for stand in the headings of the questions, which the search of the site asks first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEADINGS = re.findall(r"^### (.*)$", (ROOT / "HOWTO.md").read_text(encoding="utf-8"), re.MULTILINE)
SKIPPED = frozenset(
    {"a", "at", "before", "by", "did", "from", "how", "in", "is", "my", "no", "of", "once", "only", "the", "to"}
)
SEARCHES = {
    "ask a person": ["human in the loop", "hitl", "human approval", "approval before a tool runs"],
    "always allow": ["always allow a tool", "remember choice"],
    "allow or block": ["permissions", "rbac", "guardrails", "access control"],
    "offer each user": ["tool filtering", "multi tenant", "tools per user"],
    "switch a tool off": ["kill switch", "disable a tool"],
    "show what would happen": ["dry run", "plan mode"],
    "retry only": ["retry only safe calls", "retry idempotent calls"],
    "idempotency key": ["idempotency", "send idempotency key"],
    "paid twice": ["at most once", "exactly once", "duplicate tool call"],
    "did the tool run": ["did the tool run", "lost answer"],
    "endless loop": ["endless loop", "infinite loop"],
    "rate limit": ["rate limit per user"],
    "limit the number": ["token budget", "quota", "limit cost of calls"],
    "set a timeout": ["set a timeout"],
    "in flight": ["concurrency", "bulkhead"],
    "circuit breaker": ["circuit breaker", "backend down"],
    "cache": ["cache tool results"],
    "too long": ["truncate", "context window", "tool result too long"],
    "what a tool returns": ["validate output", "output schema", "silent failure"],
    "redact": ["redact pii", "redact secrets"],
    "audit trail": ["audit log", "audit trail", "compliance", "tamper-evident"],
    "trace tool calls": ["opentelemetry", "observability", "jaeger", "trace tool calls"],
    "why a call failed": ["debug"],
    "my middleware costs": ["middleware cost", "latency", "overhead"],
    "that the model can act on": ["return error to model"],
    "translate": ["translate error messages", "custom text"],
    "correct a wrong call": ["re-ask", "self-healing", "correct wrong call"],
    "refuse arguments": ["strict validation"],
    "exception in place": ["raise exception"],
    "dependency injection": ["dependency injection", "database session"],
    "parallel": ["parallel tool calls"],
    "Celery": ["celery", "flask", "sync"],
    "in a queue": ["background task", "long job", "task queue"],
    "is killed": ["process killed", "crash", "restart"],
    "blocks": ["blocking tool", "cpu bound", "multiprocessing"],
    "FastAPI": ["fastapi"],
    "another framework": ["langchain", "langgraph", "pydantic ai", "openai agents"],
    "MCP server": ["mcp gateway", "mcp proxy"],
    "stream progress": ["stream progress"],
    "without a model": ["mock llm", "chaos", "test agent without model"],
    "my own middleware": ["write my own middleware", "custom stage"],
}


def read_stems(text: str) -> set[str]:
    """The words of a text without their endings and without those that a search leaves out."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {re.sub(r"(?<=...)(ing|ed|es|s|e)$", "", word) for word in words if word not in SKIPPED}


def find_headings(search: str) -> list[str]:
    """The headings that hold a search as it stands, else those with all of its words."""
    as_it_stands = [each for each in HEADINGS if search.lower() in each.lower()]
    return as_it_stands or [each for each in HEADINGS if read_stems(search) and read_stems(search) <= read_stems(each)]


@pytest.mark.parametrize(("part", "search"), [(part, each) for part, all_of in SEARCHES.items() for each in all_of])
def test_a_search_leads_to_its_question(part: str, search: str) -> None:
    """What people type is in the heading of its question, and in those of at most two others."""
    found = find_headings(search)
    assert any(part in heading for heading in found)
    assert len(found) <= 3


def test_each_question_has_its_searches() -> None:
    """Each row means one heading, and each heading has a row."""
    assert [[each for each in HEADINGS if part in each] for part in SEARCHES] == [[heading] for heading in HEADINGS]
