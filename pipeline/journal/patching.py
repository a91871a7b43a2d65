"""make_patch: a proposal as a patch of the code that declares the tool."""

from __future__ import annotations

import ast
import difflib
from inspect import getsourcefile, unwrap
from pathlib import Path
from typing import Any

from ..base.foreign_values import or_default
from ..tools import Tool
from .improving import Proposal

_TUPLES = ("aliases", "reveal")


def make_patch(proposal: Proposal, tool: Tool[..., Any]) -> str:
    """The patch as a unified diff; if the declaration is no decorator that can be read, what to write where."""
    if not proposal.value:
        return _say(proposal, tool)
    return or_default("")(_make_diff)(proposal, tool) or _say(proposal, tool)


def _say(proposal: Proposal, tool: Tool[..., Any]) -> str:
    value = f"({proposal.value},)" if proposal.option in _TUPLES else proposal.value or "…"
    where = f"the parameter {proposal.parameter} of " if proposal.parameter else ""
    return f"# {tool.origin or 'where it is declared'}: for {where}{tool.name}\n{proposal.option}={value}\n"


def _make_diff(proposal: Proposal, tool: Tool[..., Any]) -> str:
    """Raises whatever a source that is not there, or not as expected, raises."""
    function: Any = unwrap(tool.fn)
    path = Path(getsourcefile(function) or "")
    text = path.read_text(encoding="utf-8")
    line = function.__code__.co_firstlineno
    node = next(
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
        and line in (each.lineno, *(decorator.lineno for decorator in each.decorator_list))
    )
    changed, written = _change_parameter(node, proposal) if proposal.parameter else _change_decorator(node, proposal)
    new = _replace(text, changed, written)
    ast.parse(new)
    name = path.name
    diff = difflib.unified_diff(text.splitlines(keepends=True), new.splitlines(keepends=True), name, name, n=1)
    return "".join(diff)


def _change_decorator(node: ast.FunctionDef | ast.AsyncFunctionDef, proposal: Proposal) -> tuple[ast.expr, str]:
    """The decorator that makes the tool, and that with the option."""
    decorator = next(each for each in node.decorator_list if ast.unparse(each).split("(")[0].split(".")[-1] == "tool")
    value = ast.parse(proposal.value, mode="eval").body
    call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
    keywords = {each.arg: each.value for each in call.keywords}
    before = keywords.get(proposal.option)
    if proposal.option in _TUPLES:
        held = before.elts if isinstance(before, (ast.Tuple, ast.List)) else [] if before is None else [before]
        value = ast.Tuple([*held, value], ast.Load())
    keywords[proposal.option] = value
    made = ast.Call(call.func, call.args, [ast.keyword(name, each) for name, each in keywords.items()])
    return decorator, ast.unparse(ast.fix_missing_locations(made))


def _change_parameter(node: ast.FunctionDef | ast.AsyncFunctionDef, proposal: Proposal) -> tuple[ast.expr, str]:
    """The annotation of the parameter, and that with the examples."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    hint = next(each.annotation for each in arguments if each.arg == proposal.parameter and each.annotation is not None)
    return hint, f"Annotated[{ast.unparse(hint)}, Field(examples={proposal.value})]"


def _replace(text: str, node: ast.expr, written: str) -> str:
    lines = text.splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    start, end = lines[first].encode()[: node.col_offset], lines[last].encode()[node.end_col_offset :]
    return "".join([*lines[:first], start.decode() + written + end.decode(), *lines[last + 1 :]])
