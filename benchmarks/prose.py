"""Patterns of prose that make a sentence hard to read twice: how often they stand in docstrings and comments.

Each pattern is a habit, not an error: a sentence without a noun as its subject ("What is not told …"), a person who
does not exist ("somebody", "nobody"), a fact stated as its negation ("is no Outcome"). Well-kept libraries have 0 to
0.9 of each in 1,000 words; `LIMIT` is where the habit comes back.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LIMIT = 0.5  # of each pattern in 1,000 words
PATTERNS = {
    "sentence that begins with What": r"\bWhat\b",
    "somebody, nobody, whoever": r"\b(?:some|no|any|every)body\b|\bwhoever\b",
    "tell, told": r"\b(?:tells?|told|telling)\b",
    "is no X": r"\b(?:is|are|was|were|be) no\b",
    "that of, those of": r"\b(?:that|those) of\b",
    "of which, by which, in which": r"\b(?:of|by|in) (?:which|whom|whose)\b",
}
_FOR_TOOLS = re.compile(r"#\s*(?:noqa|type:|pyright:|ruff:)")
_QUOTED = re.compile(r"``.*?``|`.*?`|\".*?\"", re.DOTALL)  # names, and texts that a program prints


def read_prose(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, each with its line; what stands in quotation marks is left out."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, _QUOTED.sub("X", docstring)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _FOR_TOOLS.match(token.string):
            yield token.start[0], _QUOTED.sub("X", token.string)


def find_patterns(path: Path) -> Iterator[tuple[int, str, str]]:
    """Each place of a module where a pattern stands: the line, the pattern, the words around it."""
    for line, text in read_prose(path):
        for name, pattern in PATTERNS.items():
            flags = re.NOFLAG if name.endswith("What") else re.IGNORECASE
            for found in re.finditer(pattern, text, flags):
                yield line, name, " ".join(text[max(0, found.start() - 40) : found.end() + 40].split())


def count_patterns(paths: list[Path]) -> tuple[int, dict[str, float]]:
    """The number of words, and how often each pattern stands in 1,000 of them."""
    words = sum(len(text.split()) for path in paths for _, text in read_prose(path))
    counts = Counter(name for path in paths for _, name, _ in find_patterns(path))
    return words, {name: 1000 * counts[name] / max(words, 1) for name in PATTERNS}
