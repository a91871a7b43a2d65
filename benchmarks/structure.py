"""Figures about the source tree: ``python -m benchmarks.structure [ROOT]``, for a checkout of any commit.

The last line follows the arguments of one call while it runs: the packages whose functions were handed them, in order.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONG = 250  # lines
_BROAD = {"Exception", "BaseException"}
_WALK = """
import sys
import anyio
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolRegistry

tools = ToolRegistry()

@tools.tool(effect="read")
async def add(a: int, b: int) -> int:
    return a + b

arguments = {"a": 1, "b": 2}
visited = []

def follow(frame, event, _argument):
    if event != "call":
        return
    module = frame.f_globals.get("__name__", "")
    if not module.startswith("toolcall_pipeline."):
        return
    held = [frame.f_locals[name] for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]]
    held += [getattr(each, "arguments", None) for each in held] + [getattr(each, "params", None) for each in held]
    if any(type(each) is dict and each == arguments for each in held):
        room = ".".join(module.split(".")[1:3][: module.count(".") - 1 or 1])
        if room not in visited:
            visited.append(room)

async def main():
    pipeline = standard(tools)
    await pipeline.call("add", arguments)
    sys.setprofile(follow)
    await pipeline.call("add", arguments)
    sys.setprofile(None)

anyio.run(main)
print(" > ".join(visited))
"""


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each figure with its name."""
    paths = {path.resolve() for name in ("pipeline", "middlewares") for path in (root / name).rglob("*.py")}
    files = {path: path.read_text() for path in sorted(paths)}  # resolved: a checkout has a link to the stages
    trees = {path: ast.parse(text) for path, text in files.items()}
    lines = sum(text.count("\n") for text in files.values())
    package = root / "pipeline"
    yield (
        "modules in pipeline/ itself",
        str(sum(path.parent == package and path.name != "__init__.py" for path in files)),
    )
    edges = {edge for path, tree in trees.items() if package in path.parents for edge in edges_of(path, tree, package)}
    yield "import edges between modules and packages of pipeline/", str(len(edges))
    long = [
        f"{path.relative_to(root)} ({text.count(chr(10))})" for path, text in files.items() if text.count("\n") > LONG
    ]
    yield f"files over {LONG} lines", f"{len(long)} {', '.join(long)}".strip()
    every_any = sum(len(re.findall(r"\bAny\b", text)) for text in files.values())
    yield "Any for 100 lines", f"{100 * every_any / lines:.1f}"
    yield "casts", str(sum(text.count("cast(") for text in files.values()))
    yield "noqa", str(sum(text.count("# noqa") for text in files.values()))
    yield "broad excepts", str(sum(broad(node) for tree in trees.values() for node in ast.walk(tree)))
    yield "lines", f"{lines:,} in {len(files)} files"


def edges_of(path: Path, tree: ast.AST, package: Path) -> Iterator[tuple[str, str]]:
    """From which part of the package a file imports which other one; what is for type checkers only is left out."""
    parts = path.relative_to(package).with_suffix("").parts
    guards = (node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for_checkers = {id(inner) for guard in guards for each in guard.body for inner in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in for_checkers:
            stem = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
            targets = [stem[0]] if stem[0] else [alias.name for alias in node.names]
            yield from ((parts[0], target) for target in targets if target != parts[0])


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
    sys.path.insert(0, str(root))
    print(f"{'packages that the arguments of a call visit':56} ", end="", flush=True)
    exec(compile(_WALK, "walk", "exec"), {"__name__": "walk"})  # noqa: S102  # the text above


if __name__ == "__main__":
    main()
