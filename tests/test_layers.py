"""Imports point one way: down this table, and never back."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolcall_pipeline

ROOT = Path(__file__).resolve().parent.parent
LAYERS = """
    forking lazy_names privacy semconv timing
    outside_text
    error_kind
    errors
    call_state guards introspection provider_names
    call event_loops options
    caller parameters
    messages report
    recordable
    tools
    adapters retries stage_state telemetry
    compose executors
    batch testing
    middlewares
    builtin dialogue mcp
    hosts
    cli
    __init__ __main__
"""  # lowest first; what stands in one line does not import each other
LOGS = frozenset(  # the only names of the logs API, until OpenTelemetry for Python declares it stable
    ("opentelemetry._logs", "opentelemetry.sdk._logs", "opentelemetry.sdk._logs.export")
)
LEVEL = {name: level for level, line in enumerate(LAYERS.strip().splitlines()) for name in line.split()}
FILES = sorted({file.resolve() for folder in ("pipeline", "middlewares") for file in (ROOT / folder).rglob("*.py")})
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def place(path: Path) -> tuple[str, ...]:
    """Where a module stands in the package, as the names of its rooms and its own."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1:] if parts[0] == "pipeline" else parts


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports at run time, anywhere in it, by their full names."""
    tree = ast.parse(path.read_text())
    guards = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for_checkers = {id(inner) for guard in guards for statement in guard.body for inner in ast.walk(statement)}
    package = ("toolcall_pipeline", *place(path)[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in for_checkers:
            stem = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*stem, *([node.module] if node.module else [])])
            yield from [module] if node.module else (f"{module}.{alias.name}" for alias in node.names)


@every_file
def test_imports_point_down(path: Path) -> None:
    """A package imports those of the lines above its own, a stage imports no other stage, and the SDK has its homes."""
    room, *inside = place(path)
    names = list(imported(path))
    others = {name.split(".")[1] for name in names if name.startswith("toolcall_pipeline.")} - {room}
    assert not {other for other in others if LEVEL[other] >= LEVEL[room]}
    assert "middlewares" not in others or room in ("cli", "hosts")
    if room == "middlewares" and inside[0] not in ("__init__", "standard_stack"):
        assert not any(name.startswith("toolcall_pipeline.middlewares.") for name in names)
    private = [name for name in names if name.startswith("opentelemetry") and "._" in name and name not in LOGS]
    sdk = [name for name in names if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
    assert not private
    assert not LOGS.intersection(names) or path.name == "log_export.py"
    assert not sdk or room == "cli" or path.name in ("sdk.py", "log_export.py")


def test_each_module_has_a_name_of_its_own() -> None:
    """No two modules share a name, and no attribute of a package stands in the way of the module of that name."""
    every = [
        module
        for module in pkgutil.walk_packages(toolcall_pipeline.__path__, "toolcall_pipeline.")
        if not module.name.endswith("__main__")
    ]
    leaves = [module.name.rpartition(".")[2] for module in every if not module.ispkg]
    assert sorted(leaves) == sorted(set(leaves))
    for module in every:
        package, _, leaf = module.name.rpartition(".")
        # Ray and the agent frameworks have environments of their own.
        if ".executors.ray" not in module.name and (package != "toolcall_pipeline.hosts" or leaf == "host"):
            found = importlib.import_module(module.name)
            assert getattr(sys.modules[package], leaf) is found
