"""The changes that are made to the source, one at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import attrs

Place: TypeAlias = tuple[tuple[str, int | None], ...]  # fields, and places in lists, from the module down to a node

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_UNTOUCHED = {"annotation", "returns", "decorator_list", "format_spec", "type_params"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@attrs.frozen
class Mutant:
    """One change of one file."""

    file: str  # from the root of the checkout
    function: str  # its qualified name; the name of the constant where a constant of the module is changed
    place: str  # "body", "default" or "constant"
    operator: str
    line: int
    before: str
    after: str
    statement: str  # the first line of the statement that it is in
    path: Place = attrs.field(repr=False)
    node: ast.AST = attrs.field(repr=False, eq=False)  # what stands at `path` then

    @property
    def change(self) -> str:
        """The changed source; another place of the function may have the same."""
        return f"{self.file} {self.function} {self.operator}: {self.before} -> {self.after}"

    @property
    def key(self) -> str:
        """The name of this change, also when lines have moved."""
        return self.change if self.statement in {"", self.before} else f"{self.change} in {self.statement}"

    def mutated(self, tree: ast.Module) -> ast.Module:
        """A copy of the module with this change."""
        tree = copy.deepcopy(tree)
        *way, (field, place) = self.path
        parent: Any = tree
        for name, index in way:
            parent = getattr(parent, name) if index is None else getattr(parent, name)[index]
        if place is None:
            setattr(parent, field, self.node)
        else:
            getattr(parent, field)[place] = self.node
        return ast.fix_missing_locations(tree)


def mutants_of(file: str, tree: ast.Module) -> Iterator[Mutant]:
    """Every change of one file: of the bodies and defaults of its functions, and of the constants of the module.

    Class bodies, annotations, decorators and functions that make a constant of the module stay as they are: they have
    done their work once the module is imported.
    """
    done = list_done(tree)
    for index, statement in enumerate(tree.body):
        if isinstance(statement, _FUNCTIONS) and statement.name in done:
            continue
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                if not name.startswith("__") and not _is_of_types(statement):
                    path: Place = (("body", index), ("value", None))
                    yield from _inside(statement.value, path, file, name, "constant", "")
            case _:
                yield from _functions(statement, (("body", index),), file, "")


def list_done(tree: ast.Module) -> set[str]:
    """The names of the functions that make a constant of the module: they have done their work at import."""
    constants = [each for each in tree.body if isinstance(each, (ast.Assign, ast.AnnAssign, ast.ClassDef))]
    return {name for each in constants for name in _called_at_import(each)}


def _called_at_import(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
        for each in ast.iter_child_nodes(node):
            yield from _called_at_import(each)


def _is_of_types(statement: ast.Assign | ast.AnnAssign) -> bool:
    if isinstance(statement, ast.AnnAssign) and "TypeAlias" in ast.unparse(statement.annotation):
        return True
    return isinstance(statement.value, ast.Call) and ast.unparse(statement.value.func) in {"TypeVar", "ParamSpec"}


def _functions(statement: ast.stmt, path: Place, file: str, outer: str) -> Iterator[Mutant]:
    if isinstance(statement, ast.ClassDef):
        for index, each in enumerate(statement.body):
            yield from _functions(each, (*path, ("body", index)), file, f"{outer}{statement.name}.")
    elif isinstance(statement, _FUNCTIONS):
        name = outer + statement.name
        for field in ("defaults", "kw_defaults"):
            for index, default in enumerate(getattr(statement.args, field)):
                if isinstance(default, ast.Constant):
                    yield from _inside(default, (*path, ("args", None), (field, index)), file, name, "default", field)
        for index, each in enumerate(statement.body):
            yield from _inside(each, (*path, ("body", index)), file, name, "body", "")


def _inside(node: Any, path: Place, file: str, function: str, place: str, statement: str) -> Iterator[Mutant]:
    if _is_text_for_readers(node):
        return
    if isinstance(node, ast.stmt):
        statement = _first_line(node)
    for operator, changed in _changes(node):
        ast.copy_location(changed, node)
        operator_ = "default" if place == "default" else operator
        before, after = _first_line(node), _first_line(changed)
        yield Mutant(file, function, place, operator_, node.lineno, before, after, statement, path, changed)
    for field, value in ast.iter_fields(node):
        if field in _UNTOUCHED:
            continue
        if isinstance(value, list):
            for index, each in enumerate(cast("list[object]", value)):
                if isinstance(each, ast.AST) and not (_is_cast(node) and field == "args" and index == 0):
                    yield from _inside(each, (*path, (field, index)), file, function, place, statement)
        elif isinstance(value, ast.AST):
            yield from _inside(value, (*path, (field, None)), file, function, place, statement)


def _first_line(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return repr(node.value)
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split("\n")[0]


def _is_text_for_readers(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_cast(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"


def _changes(node: Any) -> Iterator[tuple[str, ast.AST]]:  # noqa: C901, PLR0912  # a table
    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for index, op in enumerate(ops):
                swapped = [*ops[:index], _COMPARISONS[type(op)](), *ops[index + 1 :]]
                yield "comparison", ast.Compare(left, swapped, comparators)
        case ast.BoolOp(op=op, values=values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _ARITHMETIC:
            yield "arithmetic", ast.AugAssign(target, _ARITHMETIC[type(op)](), value)
            yield "removed", ast.Pass()
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.Constant(value=str() as value):
            yield "constant", ast.Constant(f"XX{value}")
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "condition", ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.If(test=test, body=body, orelse=orelse):
            yield "condition", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Return(value=ast.Constant(value=None | True | False)):
            pass  # of a truth value the constant is changed
        case ast.Return(value=ast.expr()):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Expr() | ast.Assign() | ast.Raise() | ast.AnnAssign(value=ast.expr()):
            yield "removed", ast.Pass()
        case ast.Break():
            yield "removed", ast.Continue()
        case ast.Continue():
            yield "removed", ast.Break()
        case _:
            pass
