"""MODULE:REGISTRY: the user's own registry or pipeline, imported; what is wrong with it is told in one line."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import middlewares

from ..compose.pipeline import Pipeline
from ..errors import SetupError
from ..tools.definition import Tool
from ..tools.registry import ToolRegistry

_WANTED = "a ToolRegistry, a Pipeline, or a function without arguments that makes one"
_LONGEST = 300  # characters of an exception's own text
_MOST = 5  # names worth listing
_LIBRARIES = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_OURS = [str(Path(__file__).parents[1]), str(Path(middlewares.__file__).parent)]
_NOT_THEIRS = ("<frozen", *(path + os.sep for path in _LIBRARIES + _OURS))  # how files begin that are not the user's


class Refused(Exception):  # noqa: N818  # it is what happened, as in "raise Refused"
    """Nothing was run, or no more of it: the reason, in one line, for whoever typed the command."""


def load(target: str) -> ToolRegistry | Pipeline:
    """The registry or pipeline of that name; the current directory is looked in first. Raises Refused."""
    module_name, colon, path = target.partition(":")
    if "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        raise Refused(f"{target}: MODULE is a name as in an import statement, not a file: tools and not ./tools.py")
    if not (module_name and colon and path):
        raise Refused(f"{target}: write MODULE:REGISTRY, such as tools:registry")
    found = _attribute(_module(module_name, target), path, target)
    if isinstance(found, (ToolRegistry, Pipeline)):
        return found
    if isinstance(found, Tool):
        raise Refused(f"{target} is a single tool: what is wanted is {_WANTED}")
    if not callable(found):
        raise Refused(f"{target} is {_a(found)}: what is wanted is {_WANTED}")
    made = _made(found, target)
    if isinstance(made, (ToolRegistry, Pipeline)):
        return made
    raise Refused(f"{target}() gives {_a(made)}: what is wanted is {_WANTED}")


def registry_of(it: ToolRegistry | Pipeline) -> ToolRegistry | None:
    """The registry itself; of a pipeline the one that its stages ask, if any does."""
    if isinstance(it, ToolRegistry):
        return it
    return it.registries[0] if it.registries else None


def compiled(registry: ToolRegistry, target: str) -> ToolRegistry:
    """The same. Raises Refused for a tool that has no schema: better known now than from its calls."""
    try:
        for tool in registry:
            tool.definition()
    except SetupError as exc:
        raise Refused(f"{target}: {_one_line(str(exc))}") from exc
    return registry


def _module(name: str, target: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name and (name == exc.name or name.startswith(f"{exc.name}.")):
            above = exc.name.rpartition(".")[0]
            why = f"{above} is no package" if "is not a package" in str(exc) else f"there is no module {exc.name}"
            raise Refused(f"{target}: {why} (looked in {here} first)") from None
        raise Refused(f"{target}: {_told(exc)}") from exc
    except (Exception, SystemExit) as exc:  # a module may raise anything, and one with a main() of its own exits
        raise Refused(f"{target}: {_told(exc)}") from exc


def _attribute(module: ModuleType, path: str, target: str) -> object:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            known = [key for key, value in vars(module).items() if isinstance(value, (ToolRegistry, Pipeline))]
            hint = f"; it has {', '.join(known[:_MOST])}" if known else ""
            raise Refused(f"{target}: {module.__name__} has no {path}{hint}") from None
    return cast("object", found)


def _made(make: Any, target: str) -> object:
    if inspect.iscoroutinefunction(make):
        raise Refused(f"{target} is an async function: what is wanted is {_WANTED}")
    try:
        inspect.signature(make).bind()
    except TypeError:
        raise Refused(f"{target} wants arguments: what is wanted is {_WANTED}") from None
    except ValueError:  # some that are written in C do not say
        pass
    try:
        return cast("object", make())
    except (Exception, SystemExit) as exc:
        raise Refused(f"{target}: {_told(exc)}") from exc


def _told(exc: BaseException) -> str:
    """The last line of the traceback, and where in the user's own code: the deepest place, and where that began."""
    text = exc.msg if isinstance(exc, SyntaxError) else str(exc)
    line = f"{type(exc).__name__}: {_one_line(text)}" if text else type(exc).__name__
    places = [
        f"{_near(frame.f_code.co_filename)}:{number}"
        for frame, number in traceback.walk_tb(exc.__traceback__)
        if not frame.f_code.co_filename.startswith(_NOT_THEIRS)
    ]
    if isinstance(exc, SyntaxError) and exc.filename:
        places.append(f"{_near(exc.filename)}:{exc.lineno}")
    if not places:
        return line
    return f"{line} ({places[-1]}{f', from {places[0]}' if places[0] != places[-1] else ''})"


def _near(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _a(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
