"""The texts for a model in the source of one module, and whether its tools declare their effect. No code is run.

Only the literal parts of a text are checked. Of the parts that are computed, those count that take their text from an
exception, because its text is unknown.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs
from returns.result import Failure

from ...base.introspection import unwrap
from ...engine.errors import ERROR_TYPES, FailureDetails, Problem
from ...privacy import approved, find_flaws, public_fields
from ...tools.definition import Tool
from ...tools.failure import ToolFailed
from ..terminal_text import shorten_path
from .tool_findings import Finding, Severity, quote

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
_MAX_NAMES = 5  # tools to list in one finding
# For each flaw, how bad it is and what to do. Only a warning where the text may be about a path or an address.
_FLAWS: dict[str, tuple[Severity, str]] = {
    "status code": ("error", "say in words what happened and what to do"),
    "class name": ("error", "say in words what went wrong; the log has the class"),
    "stack": ("error", "remove it; the log has the stack"),
    "path": ("warning", "name only paths that the model sent"),
    "url": ("warning", "name only addresses that the model can use"),
    EXCEPTION: ("warning", "write a text of your own; nobody knows what an exception will say"),
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


@attrs.define
class Sources:
    """The texts in the modules of the tools' functions.

    Args:
        texts: The texts for a model.
        declared: Whether the source of a tool gives an effect; a tool is absent if that cannot be seen.
        files: How many files were read.
        unread: Tools whose source cannot be found.
    """

    texts: list[SourceText] = attrs.field(factory=list[SourceText])
    declared: dict[str, bool] = attrs.field(factory=dict[str, bool])
    files: int = 0
    unread: list[str] = attrs.field(factory=list[str])


def read_sources(tools: Iterable[Tool[..., Any]]) -> Sources:
    """Read the module of each tool's function. Never raises for source that cannot be found, read or parsed."""
    sources = Sources()
    by_module: dict[str, list[Tool[..., Any]]] = {}
    for tool in tools:
        by_module.setdefault(str(getattr(unwrap(tool.fn), "__module__", "")), []).append(tool)
    for name, its_tools in by_module.items():
        module = sys.modules.get(name)
        try:
            file = inspect.getsourcefile(cast("ModuleType", module)) or ""
            tree = ast.parse(Path(file).read_bytes())
        except (OSError, TypeError, SyntaxError, ValueError):
            sources.unread += [tool.name for tool in its_tools]
            continue
        reader = SourceReader(cast("ModuleType", module), shorten_path(file), its_tools, tree)
        sources.files += 1
        sources.texts += reader.texts
        sources.declared |= reader.declared
    return sources


def check_sources(sources: Sources, tools: Iterable[Tool[..., Any]]) -> Iterator[Finding]:
    """The findings in the texts, then one for each tool with ``reveal=``, then one for the tools without source."""
    for text in sources.texts:
        for flaw in text.flaws:
            severity, fix = _FLAWS[flaw]
            what = f"an error text contains {'' if flaw == EXCEPTION else 'a '}{flaw}: {quote(text.text)}"
            yield Finding(severity, "text", text.tool, what, fix, text.place)
    for tool in tools:
        if tool.reveal:
            names = ", ".join(each.__name__ for each in tool.reveal)
            fix = "make sure that these texts are meant for a model"
            if any(issubclass(each, OSError) for each in tool.reveal):
                fix = "a system error names the whole path: raise ToolFailed where a model must not see it"
            yield Finding("note", "expect", tool.name, f"reveal= shows a model the texts of {names}", fix)
    if sources.unread:
        more = len(sources.unread) - _MAX_NAMES
        names = ", ".join(sources.unread[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        what = f"no source found for {names}: error texts there were not checked"
        yield Finding("note", "source", "", what, "nothing, if the code is not yours")


def split_text(  # noqa: C901  # a case for each way to write one
    node: ast.expr, look_up: Callable[[ast.expr], Any], inside_approved: set[int]
) -> Iterator[str | ast.expr]:
    """The parts of a text in their order: a literal or constant as text, anything else as its expression.

    Args:
        node: A literal, an f-string, ``+``, ``%``, ``.format(…)``, ``a if b else c``, ``approved(…)``, or a name.
        look_up: Gives the object that a name stands for, None if that is not known.
        inside_approved: Gets the ids of the arguments of ``approved``, so that they are not read again by themselves.
    """
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            for value in values:
                yield from split_text(value, look_up, inside_approved)
        case ast.FormattedValue(value=value):
            yield value
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from split_text(left, look_up, inside_approved)
            yield from split_text(right, look_up, inside_approved)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            yield from split_text(left, look_up, inside_approved)
            yield right
        case ast.IfExp(body=body, orelse=other):
            yield from split_text(body, look_up, inside_approved)
            yield "\n"
            yield from split_text(other, look_up, inside_approved)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=args):
            yield text
            yield from args
            yield from (keyword.value for keyword in node.keywords)
        case ast.Call(args=[inner]) if look_up(node.func) is approved:
            inside_approved.add(id(inner))
            yield from split_text(inner, look_up, inside_approved)
        case ast.Name() if isinstance(constant := look_up(node), str):
            yield constant
        case _:
            yield node
