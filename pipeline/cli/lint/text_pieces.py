"""split_text: the literal parts of an expression that makes a text, and the computed parts between them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from ...privacy import approved


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
