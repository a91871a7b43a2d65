"""The texts for a model in one module's source, and whether its tools declare their effect. Nothing is run for it.

What a text is made of at run time is told apart from what stands there: only that is judged, and what is put in from
an exception, of which nobody knows what it says.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

import attrs
from returns.result import Failure

from ...errors import (
    Denied,
    ExecutionFailed,
    FailureDetails,
    MalformedCall,
    NeedsSetup,
    NeedsUserInput,
    NotExecuted,
    Problem,
    ResourceNotFound,
)
from ...introspection import behind
from ...messages.scrub import flaws
from ...privacy import approved
from ...tools.definition import Tool
from ...tools.failure import ToolFailed

EXCEPTION = "an exception's own text"
_ELSE = "…"  # what a text is made of at run time
# Which arguments of each are for a model: their places (-1: by name alone) and names.
_TOLD: list[tuple[Any, tuple[tuple[int, str], ...]]] = [
    (ToolFailed, ((0, "message"), (-1, "suggestion"))),
    (Failure, ((0, ""),)),
    (ExecutionFailed, ((0, "message"),)),
    (ResourceNotFound, ((0, "message"),)),
    (Denied, ((1, "message"),)),
    (NeedsSetup, ((0, "service"), (1, "message"))),
    (NeedsUserInput, ((0, "question"),)),
    (NotExecuted, ((0, "reason"),)),
    (MalformedCall, ((0, "reason"),)),
    (Problem, ((2, "expected"),)),
    (FailureDetails, ((1, "suggestion"),)),
    (approved, ((0, "text"),)),
]
_FIRST = ((0, ""),)
_REVEALING = {
    "status_code": "status code",
    "__name__": "class name",
    "__qualname__": "class name",
    "__class__": "class name",
    "__file__": "path",
    "format_exc": "stack",
    "format_exception": "stack",
    "format_tb": "stack",
    "format_stack": "stack",
}


@attrs.frozen
class Told:
    """A text for a model, as it stands in the source."""

    tool: str  # in whose function it stands; "" is another one's
    place: str  # file:line
    text: str  # with … for what it is made of at run time
    flaws: tuple[str, ...]


class Reader(ast.NodeVisitor):
    """One module: its names mean what they mean in the module as it was imported."""

    def __init__(self, module: ModuleType, file: str, tools: Iterable[Tool[..., Any]], tree: ast.AST) -> None:
        self.texts: list[Told] = []
        self.declared: dict[str, bool] = {}  # whether it gives an effect, by tool; absent where that cannot be seen
        self._module = module
        self._known: dict[str, Any] = {**vars(builtins), **vars(module)}
        self._file = file
        self._tools: dict[int, list[str]] = {}  # by the first line of their function
        self._expected: tuple[type[Exception], ...] = ()
        for tool in tools:
            code = getattr(behind(tool.fn), "__code__", None)
            self._tools.setdefault(getattr(code, "co_firstlineno", 0), []).append(tool.name)
            self._expected += tool.reveal
        self._tool = ""
        self._caught: frozenset[str] = frozenset()  # names that exceptions have here
        self._validates = False
        self._validators = frozenset(_validators(tree))
        self._seen: set[int] = set()  # what was approved within a text that was read
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A tool's own function, or another one."""
        before = self._tool, self._caught, self._validates
        if names := self._tools.get(min([node.lineno, *(each.lineno for each in node.decorator_list)])):
            self._tool = names[0]
            for each in node.decorator_list:
                self._declares(each, names)
        self._validates = node.name in self._validators or any(
            "validator" in ast.unparse(each) for each in node.decorator_list
        )
        self.generic_visit(node)
        self._tool, self._caught, self._validates = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name that ast asks for

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Inside of a function too, where the module knows nothing of it."""
        try:
            name = resolve_name("." * node.level + (node.module or ""), self._module.__package__)
        except (ImportError, ValueError):
            return
        if (module := sys.modules.get(name)) is not None:
            for each in node.names:
                self._known.setdefault(each.asname or each.name, vars(module).get(each.name))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Where an exception has a name; the text of a ToolFailed is approved already."""
        before = self._caught
        caught = self._meant(node.type)
        if node.name and not (isinstance(caught, type) and issubclass(caught, ToolFailed)):
            self._caught |= {node.name}
        self.generic_visit(node)
        self._caught = before

    def visit_Call(self, node: ast.Call) -> None:
        """Perhaps of what takes a text, or makes a tool."""
        called = self._meant(node.func)
        for place, name in self._places(called):
            told = node.args[place] if 0 <= place < len(node.args) else None
            told = told or next((each.value for each in node.keywords if each.arg == name), None)
            if told is not None and (called is not Failure or self._is_text(told)):  # it may be of an error as well
                self._read(told)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "from_schema":
            names = [each.value for each in node.keywords if each.arg == "name"]
            self._declares(node, [str(each.value) for each in names if isinstance(each, ast.Constant)])
        self.generic_visit(node)

    def _places(self, called: Any) -> tuple[tuple[int, str], ...]:
        if isinstance(called, type):
            if issubclass(called, ToolFailed):
                called = ToolFailed
            elif issubclass(called, self._expected) or (self._validates and called in (ValueError, AssertionError)):
                return _FIRST
        return next((places for each, places in _TOLD if each is called), ())

    def _is_text(self, node: ast.expr) -> bool:
        made = self._meant(node.func) if isinstance(node, ast.Call) else None
        return made is str or made is repr or next(self._pieces(node), node) is not node

    def _read(self, told: ast.expr) -> None:
        if id(told) in self._seen:
            return
        text, found = "", list[str]()
        for piece in self._pieces(told):
            text += piece if isinstance(piece, str) else _ELSE
            found += () if isinstance(piece, str) else self._revealed(piece)
        if text.strip(_ELSE) or found:
            every = dict.fromkeys((*flaws(text), *found))
            self.texts.append(Told(self._tool, f"{self._file}:{told.lineno}", text, tuple(every)))

    def _pieces(self, node: Any) -> Iterator[str | ast.expr]:  # noqa: C901  # a case for each way to write one
        """Literal parts, and the expressions between them."""
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=values):
                for each in values:
                    yield from self._pieces(each)
            case ast.FormattedValue(value=value):
                yield value
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from self._pieces(left)
                yield from self._pieces(right)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                yield from self._pieces(left)
                yield right
            case ast.IfExp(body=body, orelse=other):
                yield from self._pieces(body)
                yield "\n"
                yield from self._pieces(other)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=args):
                yield text
                yield from args
                yield from (keyword.value for keyword in node.keywords)
            case ast.Call(args=[inner]) if self._meant(node.func) is approved:
                self._seen.add(id(inner))
                yield from self._pieces(inner)
            case ast.Name() if isinstance(constant := self._known.get(node.id), str):
                yield constant
            case _:
                yield node

    def _revealed(self, node: ast.expr) -> Iterator[str]:
        for each in ast.walk(node):
            name = each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
            if name in _REVEALING:
                yield _REVEALING[name]
            elif isinstance(each, ast.Name) and name in self._caught:
                yield EXCEPTION

    def _meant(self, node: ast.expr | None) -> Any:
        """What a name stands for, as far as modules go; None for anything else."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(module := self._meant(node.value), ModuleType):
            return vars(module).get(node.attr)
        return None

    def _declares(self, maker: ast.expr, names: list[str]) -> None:
        """Note whether what makes tools says their effect: a decorator called tool, or a call of from_schema."""
        called = maker.func if isinstance(maker, ast.Call) else maker
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        keywords = [each.arg for each in maker.keywords] if isinstance(maker, ast.Call) else []
        if name in ("tool", "from_schema") and None not in keywords:  # **options may hold it
            self.declared |= dict.fromkeys(names, "effect" in keywords)


def _validators(tree: ast.AST) -> Iterator[str]:
    """Functions that are named as in ``AfterValidator(check)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Validator"):
            yield from (each.id for each in node.args if isinstance(each, ast.Name))
