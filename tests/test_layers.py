"""Imports point one way: down this table, and never back."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

import toolcall_pipeline

ROOT = Path(__file__).resolve().parent.parent
LAYERS = """
    base
    privacy.public_text privacy.escaping privacy.scrubbing privacy.safe_logs
    engine.error_kind
    engine.errors
    engine.call_state engine.guards parameters.schema
    engine.call parameters.reading parameters.references
    privacy
    engine.caller parameters
    once
    messages stores
    engine.report
    tools
    adapters policies engine.retries stage_state telemetry
    audit
    engine.compose executors once.kept_outcomes once.owners once.row_versions once.ledger_records once.dead_owners
    approvals
    engine.batch testing
    journal
    middlewares
    builtin dialogue mcp
    hosts
    cli
    __init__ __main__
"""  # lowest first; rooms in one line do not import each other; a module of its own line is not of its room's line
INTEGRATIONS = ("adapters", "dialogue", "hosts", "mcp")
MAY_INTEGRATE = (*INTEGRATIONS, "cli", "testing")
MAY_STACK = ("middlewares", *INTEGRATIONS, "builtin", "cli", "testing")
# These import what a user or a stub names, or the parts of a library.
IMPORT_ANY = ("lazy_names.py", "loading.py", "function_address.py", "demo_command.py")
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


@cache
def modules() -> dict[str, Path]:
    """The files of the package by the full names of their modules, without the ``__init__`` of a package."""
    return {".".join(("toolcall_pipeline", *place(path))).removesuffix(".__init__"): path for path in FILES}


@cache
def homes(package: str) -> dict[str, str]:
    """The module that each name of a lazy package comes from, by the stub of the package."""
    path = modules().get(package)
    stub = path.with_suffix(".pyi") if path is not None else Path("/")
    lines = stub.read_text().splitlines() if stub.is_file() else []
    return {
        name: resolve_name(home, package) if home.startswith(".") else home
        for line in lines
        if line.startswith("from ")
        for _, home, _, name, *_ in (line.split(),)
    }


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a module."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path: Path, *, inside_functions: bool = True) -> Iterator[str]:
    """The modules that a file imports at run time, by their full names, also by ``import_module`` and from stubs.

    Args:
        path: A file of the package.
        inside_functions: Whether imports at first use count, too. Default True.
    """
    nodes = nodes_of(path)
    guards = (node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    skipped = {id(inner) for guard in guards for statement in guard.body for inner in ast.walk(statement)}
    if not inside_functions:
        functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        skipped |= {id(inner) for function in functions for inner in ast.walk(function)}
    package = ".".join(("toolcall_pipeline", *place(path)[:-1]))
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in modules() else homes(module).get(alias.name, module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "import_module",
            "__import__",
        ):
            named = node.args[0]
            if isinstance(named, ast.Constant):
                yield resolve_name(str(named.value), package)
            elif path.name not in IMPORT_ANY:
                yield f"a name that no test can read: {ast.unparse(node)}"


def level_of(module: str) -> int:
    """The line of a module: its own, or else the one of its room."""
    room, *inside = module.split(".")[1:]
    return LEVEL.get(".".join((room, *inside[:1])), LEVEL.get(room, -1))


def room_of(module: str) -> str:
    """The room of a module; each part of the engine counts as one."""
    room, *inside = module.split(".")[1:] or [""]
    return ".".join((room, *inside[:1])) if room == "engine" else room


@every_file
def test_imports_point_down(path: Path) -> None:
    """A room imports those of the lines above its own, a stage imports no other stage, and the SDK has its homes."""
    room, *inside = place(path)
    names = list(imported(path))
    ours = {name for name in names if name.startswith("toolcall_pipeline.")}
    module = ".".join(("toolcall_pipeline", *place(path)))
    assert not [name for name in ours if room_of(name) != room_of(module) and level_of(name) >= level_of(module)]
    assert not [name for name in ours if name.split(".")[1] in INTEGRATIONS and room not in MAY_INTEGRATE]
    assert not [name for name in ours if name.startswith("toolcall_pipeline.middlewares") and room not in MAY_STACK]
    assert not [name for name in names if "no test can read" in name]
    if room == "middlewares" and inside[0] not in ("__init__", "standard_stack", "standard_durable"):
        assert not any(name.startswith("toolcall_pipeline.middlewares.") for name in names)
    private = [name for name in names if name.startswith("opentelemetry") and "._" in name and name not in LOGS]
    sdk = [name for name in names if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))]
    assert not private
    assert not LOGS.intersection(names) or path.name == "log_export.py"
    assert not sdk or room == "cli" or path.name in ("sdk.py", "log_export.py")


def find_circle(imports: dict[str, set[str]]) -> list[str]:
    """A circle of imports, as the modules on the way; [] if there is none."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> list[str]:
        if module in way:
            return way[way.index(module) :]
        if module in done:
            return []
        for other in sorted(imports.get(module, ())):
            if circle := walk(other, [*way, module]):
                return circle
        done.add(module)
        return []

    for module in sorted(imports):
        if circle := walk(module, []):
            return circle
    return []


def test_no_circle_of_imports() -> None:
    """No module imports itself by way of others when it is loaded; imports for type checkers alone do not count."""
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    known = modules()
    circle = find_circle(
        {
            name: {other for other in imported(path, inside_functions=False) if other in known}
            for name, path in known.items()
        }
    )
    assert circle == []


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


KEEPING = (
    "approvals",
    "audit",
    "journal",
    "policies",
    "stores",
    "once.kept_outcomes",
    "once.ledger_records",
    "once.old_digests",
    "once.owners",
    "once.row_versions",
)
LOADED = """
import contextlib, io, re, sys
from toolcall_pipeline.middlewares import standard
{then}
print(*(name for name in sys.modules if name.startswith("toolcall_pipeline.")))
"""
FIRST_PROGRAM = """
with contextlib.redirect_stdout(io.StringIO()):
    exec(re.search(r"```python\\n(.*?)```", open("README.md").read(), re.S)[1], {"__name__": "__main__"})
"""


@pytest.mark.parametrize("then", ["", FIRST_PROGRAM], ids=["standard", "the README's first program"])
def test_the_lower_floors_load_alone(then: str) -> None:
    """What keeps something, and what stands above the stages, is loaded when it is first used: 125 modules in all."""
    program = LOADED.format(then=then)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = [name.removeprefix("toolcall_pipeline.") for name in done.stdout.split()]
    assert "middlewares.standard_stack" in loaded
    assert not [name for name in loaded if name.startswith((*KEEPING, *MAY_INTEGRATE))]
    assert len(loaded) < 125  # besides the package itself
