"""Figures about the source tree: ``python -m benchmarks.structure [ROOT]``, for a checkout of any commit.

The last lines follow single calls while they run: how many files and lines of the package each executes, and which
rooms the arguments of a call pass.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.prose import count_patterns

SMALL = 60  # lines
_BROAD = {"Exception", "BaseException"}
_NOT_CORE = ("adapters", "mcp", "hosts", "dialogue", "cli", "testing")
_CALLS = """
import logging, sys
import anyio
try:
    from toolcall_pipeline import ToolRegistry, is_failure, render
    from toolcall_pipeline.middlewares import Retry, Trace, standard
except ImportError:  # a checkout of before the package had this name
    from pipeline import ToolRegistry, is_failure, render
    from middlewares import Retry, Trace, standard
from opentelemetry.sdk.trace import TracerProvider

ROOTS = ("toolcall_pipeline", "pipeline", "middlewares")
logging.disable()
tools = ToolRegistry()
fails = [False]

@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    if fails[0]:
        fails[0] = False
        raise ConnectionError
    return a + b

arguments = {"a": 1, "b": 2}
visited, lines = [], set()

def room_of(module):
    parts = module.split(".")
    return ".".join(parts[1:2] if parts[0] != "middlewares" else parts[:1])

def follow(frame, event, _argument):
    module = frame.f_globals.get("__name__", "")
    if module.partition(".")[0] not in ROOTS:
        return None
    if event == "call":
        held = [frame.f_locals[name] for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]]
        held += [getattr(each, "arguments", None) for each in held] + [getattr(each, "params", None) for each in held]
        if any(type(each) is dict and each == arguments for each in held) and room_of(module) not in visited:
            visited.append(room_of(module))
    elif event == "line":
        lines.add((frame.f_code.co_filename, frame.f_lineno))
    return follow

async def watch(what, pipeline, sent, failing=False):
    for _ in range(3):
        fails[0] = failing
        render(await pipeline.call("add", sent))
    lines.clear()
    fails[0] = failing
    sys.settrace(follow)
    outcome = await pipeline.call("add", sent)
    if is_failure(outcome):
        render(outcome)
    sys.settrace(None)
    print(f"{'files and lines that ' + what + ' executes':56} {len({file for file, _ in lines})} / {len(lines)}")

async def no_wait(seconds):
    pass

async def main():
    pipeline = standard(tools).replace("retry", Retry(3, first_delay=0, sleep=no_wait))
    await watch("a call", pipeline, arguments)
    passed = " > ".join(visited)
    await watch("a bad parameter", pipeline, {"a": "two", "b": 2})
    await watch("one retry", pipeline, arguments, failing=True)
    await watch("a recorded call", pipeline.replace("trace", Trace(tracer_provider=TracerProvider())), arguments)
    print(f"{'rooms that the arguments of a call pass':56} {passed}")

anyio.run(main)
"""


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each figure with its name."""
    paths = {path.resolve() for name in ("pipeline", "middlewares") for path in (root / name).rglob("*.py")}
    files = {path: path.read_text(encoding="utf-8") for path in sorted(paths)}  # a checkout has a link to the stages
    trees = {path: ast.parse(text) for path, text in files.items()}
    package = root / "pipeline"
    lengths = {path: text.count("\n") for path, text in files.items()}
    yield "lines", f"{sum(lengths.values()):,} in {len(files)} files"
    core = [path for path in files if path.relative_to(root).parts[1] not in _NOT_CORE]
    yield f"lines of the core (all but {', '.join(_NOT_CORE)})", f"{sum(lengths[path] for path in core):,}"
    yield "lines of a file, median", f"{statistics.median(lengths.values()):.0f}"
    yield f"files under {SMALL} lines", str(sum(length < SMALL for length in lengths.values()))
    rooms = ("parameters", "mcp", "cli")
    yield (
        f"files in {', '.join(rooms)}",
        " ".join(str(sum(package / room in path.parents for path in files)) for room in rooms),
    )
    longest = max(files, key=lambda path: lengths[path])
    yield "longest file", f"{longest.relative_to(root)} ({lengths[longest]})"
    yield (
        "modules in pipeline/ itself",
        str(sum(path.parent == package and path.name != "__init__.py" for path in files)),
    )
    imports = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    lines = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
    yield "lines of imports", f"{lines:,} ({100 * lines / sum(lengths.values()):.1f} %)"
    circles = find_circles({name_of(path, root): set(imported(path, tree, root)) for path, tree in trees.items()})
    yield (
        "circles of imports at run time",
        f"{len(circles)} {' '.join('+'.join(sorted(each)) for each in circles)}".strip(),
    )
    every_any = sum(len(re.findall(r"\bAny\b", text)) for text in files.values())
    yield "Any", f"{every_any} ({100 * every_any / sum(lengths.values()):.1f} for 100 lines)"
    yield "casts", str(sum(text.count("cast(") for text in files.values()))
    yield "noqa", str(sum(text.count("# noqa") for text in files.values()))
    yield "broad excepts", str(sum(broad(node) for tree in trees.values() for node in ast.walk(tree)))
    prose = [*files, *(path for path in sorted((root / "benchmarks").rglob("*.py")))]
    words, patterns = count_patterns(prose)
    yield "words of docstrings and comments, with benchmarks/", f"{words:,}"
    for name, share in patterns.items():
        yield f"  {name}, for 1,000 words", f"{share:.2f}"


def name_of(path: Path, root: Path) -> str:
    """The full name of a module; a package has the name of its folder."""
    parts = path.relative_to(root).with_suffix("").parts
    inside = parts[1:] if parts[0] == "pipeline" else parts
    return ".".join(("toolcall_pipeline", *(inside[:-1] if inside[-1] == "__init__" else inside)))


def imported(path: Path, tree: ast.Module, root: Path) -> Iterator[str]:
    """The modules of the package that a module imports when it is imported itself, by full names."""
    package = name_of(path, root).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in tree.body:  # an import inside of a function runs later, and one for type checkers never
        if isinstance(node, ast.ImportFrom) and node.level:
            stem = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            module = ".".join(part for part in stem if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def find_circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The groups of modules that import each other, directly or by others (Tarjan's strongly connected components)."""
    found: list[set[str]] = []
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        open_.append(name)
        for other in imports[name] & imports.keys():
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in open_:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = set(open_[open_.index(name) :])
            del open_[open_.index(name) :]
            if len(group) > 1:
                found.append(group)

    for name in imports:
        if name not in order:
            visit(name)
    return found


def broad(node: ast.AST) -> bool:
    """Whether it catches every exception."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(each is None or ast.unparse(each) in _BROAD for each in caught)


def main() -> None:
    """Print the figures."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    for name, figure in figures(root):
        print(f"{name:56} {figure}")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", _CALLS], env=environment, cwd=root, check=True)  # noqa: S603  # the text above


if __name__ == "__main__":
    main()
