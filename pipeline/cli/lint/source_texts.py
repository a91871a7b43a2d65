"""The texts for a model in the source of one module, and whether its tools declare their effect. No code is run.

Only the literal parts of a text are checked. Of the parts that are computed, those count that take their text from an
exception, because nobody knows what it will say.
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

from ...errors import ERROR_TYPES, FailureDetails, Problem
from ...introspection import unwrap
from ...privacy import approved, find_flaws, public_fields
from ...tools.definition import Tool
from ...tools.failure import ToolFailed
from .text_pieces import split_text

EXCEPTION = "an exception's own text"
_COMPUTED = "…"  # stands for a part that is computed
_BY_NAME = -1  # for an argument that has a name only
# The arguments of each callable that a model gets to see, by position and name.
_TEXT_ARGUMENTS: list[tuple[Any, tuple[tuple[int, str], ...]]] = [
    (ToolFailed, ((0, "message"), (_BY_NAME, "suggestion"))),
    (Failure, ((0, ""),)),
    (approved, ((0, "text"),)),
    *((each, public_fields(each)) for each in (*ERROR_TYPES, Problem, FailureDetails)),
]
_FIRST_ARGUMENT = ((0, ""),)
_REVEALING_NAMES = {
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
class SourceText:
    """A text for a model, as it is written in the source."""

    tool: str  # whose function contains it; "" if no tool's does
    place: str  # file:line
    text: str  # with … for each computed part
    flaws: tuple[str, ...]


class SourceReader(ast.NodeVisitor):
    """Reads one module. A name in the source means what it means in the imported module.

    Attributes:
        texts: The texts for a model, in the order of the source.
        declared: Whether the source of a tool gives an effect; a tool is absent if that cannot be seen.
    """

    def __init__(self, module: ModuleType, file: str, tools: Iterable[Tool[..., Any]], tree: ast.AST) -> None:
        self.texts: list[SourceText] = []
        self.declared: dict[str, bool] = {}
        self._module = module
        self._names: dict[str, Any] = {**vars(builtins), **vars(module)}
        self._file = file
        self._tools: dict[int, list[str]] = {}  # by the first line of their function
        self._revealed: tuple[type[Exception], ...] = ()
        for tool in tools:
            code = getattr(unwrap(tool.fn), "__code__", None)
            self._tools.setdefault(getattr(code, "co_firstlineno", 0), []).append(tool.name)
            self._revealed += tool.reveal
        self._tool = ""
        self._caught: frozenset[str] = frozenset()  # names of exceptions that are caught around this node
        self._in_validator = False
        self._validators = frozenset(_find_validators(tree))
        self._read_already: set[int] = set()  # ids of nodes inside of approved(…), read with the text around it
        self.visit(tree)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Note which tool the function is, and whether it is a validator."""
        before = self._tool, self._caught, self._in_validator
        if names := self._tools.get(min([node.lineno, *(each.lineno for each in node.decorator_list)])):
            self._tool = names[0]
            for decorator in node.decorator_list:
                self._note_effect(decorator, names)
        self._in_validator = node.name in self._validators or any(
            "validator" in ast.unparse(decorator) for decorator in node.decorator_list
        )
        self.generic_visit(node)
        self._tool, self._caught, self._in_validator = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name that ast calls

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note what an import inside a function imports; the module has no such name."""
        try:
            name = resolve_name("." * node.level + (node.module or ""), self._module.__package__)
        except (ImportError, ValueError):
            return
        if (module := sys.modules.get(name)) is not None:
            for alias in node.names:
                self._names.setdefault(alias.asname or alias.name, vars(module).get(alias.name))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Note the name of the exception, except for ToolFailed, whose text is for a model."""
        before = self._caught
        caught = self._look_up(node.type)
        if node.name and not (isinstance(caught, type) and issubclass(caught, ToolFailed)):
            self._caught |= {node.name}
        self.generic_visit(node)
        self._caught = before

    def visit_Call(self, node: ast.Call) -> None:
        """Read the texts for a model in the arguments, and note the effect of a tool that is made from a schema."""
        called = self._look_up(node.func)
        for position, name in self._find_text_arguments(called):
            argument = node.args[position] if 0 <= position < len(node.args) else None
            argument = argument or next((each.value for each in node.keywords if each.arg == name), None)
            if argument is not None and (called is not Failure or self._is_text(argument)):  # or it holds an error
                self._read_text(argument)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "from_schema":
            names = [each.value for each in node.keywords if each.arg == "name"]
            self._note_effect(node, [str(each.value) for each in names if isinstance(each, ast.Constant)])
        self.generic_visit(node)

    def _find_text_arguments(self, called: Any) -> tuple[tuple[int, str], ...]:
        if isinstance(called, type):
            if issubclass(called, ToolFailed):
                called = ToolFailed
            elif issubclass(called, self._revealed) or (self._in_validator and called in (ValueError, AssertionError)):
                return _FIRST_ARGUMENT
        return next((arguments for each, arguments in _TEXT_ARGUMENTS if each is called), ())

    def _is_text(self, node: ast.expr) -> bool:
        called = self._look_up(node.func) if isinstance(node, ast.Call) else None
        return called is str or called is repr or next(self._split(node), node) is not node

    def _read_text(self, node: ast.expr) -> None:
        if id(node) in self._read_already:
            return
        text, revealed = "", list[str]()
        for piece in self._split(node):
            text += piece if isinstance(piece, str) else _COMPUTED
            revealed += () if isinstance(piece, str) else self._find_revealed(piece)
        if text.strip(_COMPUTED) or revealed:
            found = dict.fromkeys((*find_flaws(text), *revealed))
            self.texts.append(SourceText(self._tool, f"{self._file}:{node.lineno}", text, tuple(found)))

    def _split(self, node: ast.expr) -> Iterator[str | ast.expr]:
        return split_text(node, self._look_up, self._read_already)

    def _find_revealed(self, node: ast.expr) -> Iterator[str]:
        """What a computed part may reveal."""
        for each in ast.walk(node):
            name = each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
            if name in _REVEALING_NAMES:
                yield _REVEALING_NAMES[name]
            elif isinstance(each, ast.Name) and name in self._caught:
                yield EXCEPTION

    def _look_up(self, node: ast.expr | None) -> Any:
        """The object that a name, or an attribute of a module, stands for; None for anything else."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(module := self._look_up(node.value), ModuleType):
            return vars(module).get(node.attr)
        return None

    def _note_effect(self, maker: ast.expr, names: list[str]) -> None:
        """Note for these tools whether a decorator called ``tool``, or a call of ``from_schema``, gives an effect."""
        called = maker.func if isinstance(maker, ast.Call) else maker
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        keywords = [each.arg for each in maker.keywords] if isinstance(maker, ast.Call) else []
        if name in ("tool", "from_schema") and None not in keywords:  # **options may contain it
            self.declared |= dict.fromkeys(names, "effect" in keywords)


def _find_validators(tree: ast.AST) -> Iterator[str]:
    """The functions that are named in annotations such as ``AfterValidator(check)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Validator"):
            yield from (each.id for each in node.args if isinstance(each, ast.Name))
