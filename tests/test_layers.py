"""Imports point one way: pipeline knows no stage, a stage knows no other stage, and no module one above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Lowest first; what stands in one line does not import each other.
LAYERS = [
    {"private", "public", "semconv", "draining"},
    {"errors", "trees"},
    {"names", "schemas", "callables", "docstrings", "providers", "budget", "failed"},
    {"problems", "configure"},
    {"coerce"},
    {"misspelt", "hints"},
    {"repair"},
    {"bridges", "context", "pydantic_problems", "schema_problems"},
    {"signature"},
    {"params"},
    {"definition"},
    {"tool", "detect", "planner"},
    {"marker"},
    {"call", "registry"},
    {"report", "deadline"},
    {"log", "conformance", "retried", "turns"},
    {"stage"},
    {"explain"},
    {"chain"},
    {"compose"},
    {"batch", "messages"},
    {"metrics", "events", "openinference", "facts", "adapters", "dialogue", "builtin"},
    {"listening", "telemetry"},
    {"later", "testing", "executors"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
TOP = {"cli", "__main__", "__init__"}  # may import all


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        yield path.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py"), path


def imported(path: Path) -> Iterator[str]:
    """The modules of pipeline that a file imports at run time, at any place in it."""
    depth = len(path.relative_to(ROOT / "pipeline").parts)
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing_only and node.level == depth:
            if node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names)


def test_every_module_has_its_layer() -> None:
    """A new module of pipeline is given its place here."""
    assert {name for name, _ in modules()} - TOP == set(LEVEL)


@pytest.mark.parametrize(
    ("name", "path"), [pytest.param(*each, id=str(each[1].relative_to(ROOT))) for each in modules()]
)
def test_pipeline_imports_point_down(name: str, path: Path) -> None:
    """A module imports from lower layers only, type-only imports aside."""
    if name in TOP:
        return
    above = {other for other in imported(path) if other != name and LEVEL.get(other, len(LAYERS)) >= LEVEL[name]}
    assert above == set()


def names_imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


@pytest.mark.parametrize("path", [path for _, path in modules()], ids=lambda path: str(path.relative_to(ROOT)))
def test_pipeline_knows_no_stage(path: Path) -> None:
    """Only the command line stands above middlewares."""
    above = {name for name in names_imported(path) if name.split(".")[0] == "middlewares"}
    assert not above or "cli" in path.parts


@pytest.mark.parametrize("path", sorted((ROOT / "middlewares").glob("*.py")), ids=lambda path: path.name)
def test_no_stage_imports_another(path: Path) -> None:
    """A stage is one file, and only the two files that put stages together import others."""
    relative = {
        node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom) and node.level
    }
    assert not relative or path.name in ("__init__.py", "standard.py")


@pytest.mark.parametrize("package", ["pipeline", "middlewares"])
def test_the_library_uses_the_tracing_api_only(package: str) -> None:
    """Nothing but the command line and providers imports the OpenTelemetry SDK, and nothing a private name of it."""
    for path in (ROOT / package).rglob("*.py"):
        names = {name for name in names_imported(path) if name.startswith("opentelemetry")}
        assert not any(part.startswith("_") for name in names for part in name.split(".")), path
        may = not {"cli", "providers.py"}.isdisjoint(path.parts)
        assert may or not any(".sdk" in name or ".exporter" in name for name in names), path
