"""Bodies that raise what is no Exception, and a tool of them that a worker process can import."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from toolcall_pipeline import ToolRegistry


class FunctionTimedOut(BaseException):
    """As that of func_timeout, whose ``__init__`` takes more than the text."""

    def __init__(self, msg: str, timedOutAfter: float, timedOutFunction: object) -> None:  # noqa: N803  # as there
        super().__init__(msg)
        self.timedOutAfter, self.timedOutFunction = timedOutAfter, timedOutFunction


PanicException = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})  # no module has it


class Unshowable(BaseException):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise PanicException("of a text")


def parse_a_wrong_option() -> object:
    return argparse.ArgumentParser(exit_on_error=True).parse_args(["--no-such-option"])


def raise_of(exc: BaseException) -> object:
    raise exc


def raise_in_a_group() -> object:
    raise BaseExceptionGroup("usage: …", [SystemExit(2), ValueError("the other")])


def raise_in_two_groups() -> object:
    inner = BaseExceptionGroup("usage: …", [PanicException(), SystemExit(1)])
    raise BaseExceptionGroup("usage: …", [inner, FunctionTimedOut("usage: …", 1.0, sys.exit)])


def raise_with_a_cause() -> object:
    raise PanicException("usage: …") from FunctionTimedOut("usage: …", 1.0, sys.exit)


BODIES: dict[str, Callable[[], object]] = {
    "a code": lambda: sys.exit(3),
    "a text": lambda: sys.exit("usage: …"),
    "success": lambda: sys.exit(0),
    "argparse": parse_a_wrong_option,
    "a group": raise_in_a_group,
    "a time limit": lambda: raise_of(FunctionTimedOut("usage: …", 1.0, lambda: None)),
    "a panic": lambda: raise_of(PanicException("usage: …")),
    "no class of its own": lambda: raise_of(BaseException("usage: …")),
    "no text": lambda: raise_of(Unshowable()),
    "groups": raise_in_two_groups,
    "a cause": raise_with_a_cause,
}

tools = ToolRegistry()


@tools.tool(effect="read")
def exits(body: str) -> object:
    """Raise what the body raises."""
    return BODIES[body]()


@tools.tool(effect="read")
async def exits_in_a_loop(body: str) -> object:
    """The same, in an event loop."""
    return BODIES[body]()


@tools.tool(effect="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b
