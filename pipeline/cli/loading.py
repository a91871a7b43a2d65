"""Loads MODULE:REGISTRY, the user's registry or pipeline. Every failure is a CommandError."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import attrs

from toolcall_pipeline.middlewares import standard

from ..base.setup_error import SetupError
from ..engine.compose.pipeline import Pipeline
from ..messages import Wording
from ..privacy import get_logger
from ..tools.definition import Tool
from ..tools.view import ToolView
from .shared_options import AS_IT_IS, Worded
from .terminal_text import CommandError, describe_exception, fit_on_one_line

_EXPECTED = "expected a ToolRegistry, a Pipeline, or a function without required parameters that returns one"
_MAX_TEXT = 300  # characters of a SetupError
_MAX_NAMES = 5  # registries of a module to suggest
_logger = get_logger()
T = TypeVar("T")


def load_target(target: str) -> ToolView | Pipeline:
    """Import MODULE, from the current directory first, and return what REGISTRY names or its function returns."""
    found = load_object(target, "REGISTRY")
    if isinstance(found, (ToolView, Pipeline)):
        return found
    if isinstance(found, Tool):
        raise CommandError(f"{target} is a single Tool: {_EXPECTED}")
    if not callable(found):
        raise CommandError(f"{target} is {_describe_type(found)}: {_EXPECTED}")
    made = _call_factory(found, target)
    if isinstance(made, (ToolView, Pipeline)):
        return made
    raise CommandError(f"{target}() returns {_describe_type(made)}: {_EXPECTED}")


def load_object(target: str, name: str) -> object:
    """Import MODULE, from the current directory first, and return what the name in it holds."""
    module_name, colon, path = target.partition(":")
    if "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        raise CommandError(f"{target}: write MODULE as in an import statement: tools, not ./tools.py")
    if not (module_name and colon and path):
        raise CommandError(f"{target}: write MODULE:{name}, for example tools:{name.lower()}")
    return _get_attribute(_import_module(module_name, target), path, target)


def find_registry(loaded: ToolView | Pipeline) -> ToolView | None:
    """The registry itself, or the first one of a pipeline; None for a pipeline without one."""
    if isinstance(loaded, ToolView):
        return loaded
    return loaded.registries[0] if loaded.registries else None


def load_registry(target: str) -> ToolView:
    """The registry that the target is, or that a stage of the pipeline has."""
    return require_registry(load_target(target), target)


def require_registry(loaded: ToolView | Pipeline, target: str) -> ToolView:
    """`find_registry`, of what the target names."""
    registry = find_registry(loaded)
    if registry is None:
        raise CommandError(f"{target} is a Pipeline in which no stage has a ToolRegistry")
    return registry


def check_schemas(registry: ToolView, target: str) -> None:
    """Build the schema of every tool, so that a tool without one is found before the first call."""
    try:
        for tool in registry:
            tool.definition()
    except SetupError as exc:
        raise CommandError(f"{target}: {fit_on_one_line(str(exc), _MAX_TEXT)}") from exc


def load_checked(target: str) -> ToolView | Pipeline:
    """`load_target`, and `check_schemas` of its registry."""
    loaded = load_target(target)
    if (registry := find_registry(loaded)) is not None:
        check_schemas(registry, target)
    return loaded


def load_pipeline(target: str) -> Pipeline:
    """The pipeline that the target names, or the standard one over its registry; the schemas are built."""
    loaded = load_checked(target)
    if isinstance(loaded, Pipeline):
        return loaded
    try:
        return standard(loaded)
    except SetupError as exc:
        raise CommandError(f"{target}: {exc}") from None


def _import_module(name: str, target: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except (Exception, SystemExit) as exc:  # the user's module may raise anything, and one with a main() may exit
        missing = exc.name if isinstance(exc, ModuleNotFoundError) else None
        if missing and (name == missing or name.startswith(f"{missing}.")):
            parent = missing.rpartition(".")[0]
            why = f"{parent} is not a package" if "is not a package" in str(exc) else f"no module named {missing}"
            raise CommandError(f"{target}: {why} (searched {here} first)") from None
        raise CommandError(f"{target}: {describe_exception(exc)}") from exc


def _get_attribute(module: ModuleType, path: str, target: str) -> object:
    found: Any = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            known = [key for key, value in vars(module).items() if isinstance(value, (ToolView, Pipeline))]
            hint = f"; it has {', '.join(known[:_MAX_NAMES])}" if known else ""
            raise CommandError(f"{target}: module {module.__name__} has no {path}{hint}") from None
    return cast("object", found)


def _call_factory(factory: Any, target: str) -> object:
    if inspect.iscoroutinefunction(factory):
        raise CommandError(f"{target} is an async function: {_EXPECTED}")
    check_factory(factory, target, _EXPECTED)
    try:
        return cast("object", factory())
    except (Exception, SystemExit) as exc:  # the user's function may raise anything
        raise CommandError(f"{target}: {describe_exception(exc)}") from exc


def check_factory(factory: Any, target: str, expected: str) -> None:
    """Raise CommandError for a callable that has required parameters."""
    try:
        inspect.signature(factory).bind()
    except TypeError:
        what = "has required parameters"
        if not inspect.isroutine(factory) and not inspect.isclass(factory):  # such as the app of a web framework
            what = f"is {_describe_type(factory)}"
        raise CommandError(f"{target} {what}: {expected}") from None
    except ValueError:  # some functions written in C have no signature
        pass


def _describe_type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def word(pipeline: Pipeline, worded: Worded) -> Pipeline:
    """The pipeline, whose texts for the model are worded as the command line says."""
    if worded == AS_IT_IS:
        return pipeline
    try:
        return pipeline.worded((pipeline.wording or Wording()).changed(worded.profile, worded.verbosity))
    except SetupError as exc:
        raise CommandError(str(exc).replace("Wording: `profile`", "--profile")) from None


def keep(pipeline: Pipeline, journal: Path | None) -> Pipeline:
    """The pipeline, which keeps the reports of its calls in that file too. None: it keeps none."""
    if journal is None:
        return pipeline
    from ..journal import JournalError, JournalFile, get_journal
    from ..middlewares import Trace

    try:
        JournalFile.open(journal).close()  # before any call is made
        sink = get_journal(journal)
        stage = next((stage for stage in pipeline.entries if stage.role == "observe"), None)
        if stage is None:
            return pipeline.before(pipeline.stages[0], Trace(sinks=[sink]))
        if not isinstance(stage.obj, Trace):
            raise CommandError(f"--journal {journal}: the pipeline has an observer of its own, and no Trace")
        return pipeline.replace(stage.name, attrs.evolve(stage.obj, sinks=[*stage.obj.sinks, sink]))
    except JournalError as exc:
        raise CommandError(f"--journal {exc}") from None


def open_pipeline(pipeline: Pipeline, target: str) -> AbstractAsyncContextManager[Pipeline]:
    """Open it for the block."""
    return open_named(pipeline, target, " does not open")


@asynccontextmanager
async def open_named(opens: AbstractAsyncContextManager[T], name: str, why: str = "") -> AsyncGenerator[T]:
    """The open thing for a block; CommandError if it does not open. A fault on closing is logged: the results hold."""
    opened = ended = False
    try:
        async with opens as found:
            opened = True
            yield found
            ended = True
    except Exception as exc:
        if not opened:
            raise CommandError(f"{name}{why}: {describe_exception(exc)}") from exc
        if not ended:
            raise
        _logger.exception("%s does not close", name)
