"""``make structure``: figures about the source tree, beside those of the last release; it fails nothing.

    make structure ARGS="--beside COMMIT"   # another checkout than that of the last tag

Sizes are lines of Python files with their docstrings, comments and blank lines.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PROMISES = """
    engine: engine call call_state caller error_kind errors compose guards report retries retry batch classify execute
        available resolve executors timeout deadline hedge
    base: base options introspection foreign_values timing forking lazy_names event_loops toml_file semconv
        provider_names
    arguments: parameters validate given
    texts: messages
    tools: tools
    privacy: privacy
    telemetry: telemetry trace
    once: once identity ledger loop_guard cache idempotency
    limits: stage_state rate_limit concurrency circuit_breaker quota shape
    stores: stores
    approvals: approvals approve policies policy dry_run switchboard
    audit: audit
    journal: journal
    adapters: adapters
    mcp: mcp
    hosts: hosts
    dialogue: dialogue
    command line: cli __main__
    testing: testing
"""  # a file belongs to the promise that has its own name, else that of its folder, innermost first
PROMISES = {
    word: line.partition(":")[0].strip()
    for line in re.sub(r"\n {8}", " ", _PROMISES).strip().splitlines()
    for word in line.partition(":")[2].split()
}
NOT_CORE = ("adapters", "mcp", "hosts", "dialogue", "command line", "testing")
_BROAD = {"Exception", "BaseException"}
_LOADED = "\nimport sys as _s; print('modules', sum(n.split('.')[0] == 'toolcall_pipeline' for n in _s.modules))"


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each figure of a checkout with its name."""
    files = read(root, "pipeline") | read(root, "middlewares")
    tests = read(root, "tests") | read(root, "benchmarks/tests")
    sizes = {path: text.count("\n") for path, text in files.items()}
    by_promise: Counter[str] = Counter()
    for path, size in sizes.items():
        by_promise[promise_of(path)] += size
    yield "package, lines", f"{sum(sizes.values()):,} in {len(files)} files"
    yield (
        "core (without " + ", ".join(NOT_CORE) + ")",
        f"{sum(by_promise.values()) - sum(by_promise[each] for each in NOT_CORE):,}",
    )
    measured = sum(text.count("\n") for path, text in read(root, "benchmarks").items() if path not in tests)
    yield "benchmarks, without their tests", f"{measured:,}"
    yield "tests, those of benchmarks too", f"{sum(text.count(chr(10)) for text in tests.values()):,}"
    for promise in [*dict.fromkeys(PROMISES.values()), "other"]:
        yield f"  {promise}", f"{by_promise[promise]:,}"
    trees = {path: ast.parse(text) for path, text in files.items()}
    for what, deep in (("when it is imported", False), ("at any time", True)):
        imports = {name_of(path): set(imported(path, tree, deep=deep)) for path, tree in trees.items()}
        circles = sorted(find_circles(imports), key=len, reverse=True)
        told = ", ".join(f"{len(each)} in {' '.join(sorted({room_of(name) for name in each}))}" for each in circles)
        yield f"circles of imports, {what}", told or "none"
    yield (
        "modules of ours that `standard` loads",
        count_loaded(root, "from toolcall_pipeline.middlewares import standard"),
    )
    block = re.search(
        r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    yield "and the README's first program", count_loaded(root, block[1] if block else "raise SystemExit")
    yield "broad excepts", str(sum(is_broad(node) for tree in trees.values() for node in ast.walk(tree)))
    yield "noqa", str(sum(text.count("# noqa") for text in files.values()))


def read(root: Path, folder: str) -> dict[Path, str]:
    """The Python files of a folder that are files of this checkout: a link to another folder is not followed."""
    return {
        path.relative_to(root): path.read_text(encoding="utf-8")
        for path in sorted((root / folder).rglob("*.py"))
        if not any(each.is_symlink() for each in (path, *path.parents) if each != root)
    }


def promise_of(path: Path) -> str:
    """The promise whose lines these are."""
    return next((PROMISES[part] for part in reversed(path.with_suffix("").parts) if part in PROMISES), "other")


def name_of(path: Path) -> str:
    """The full name of a module; a package has the name of its folder."""
    parts = path.with_suffix("").parts
    inside = parts[1:] if parts[0] == "pipeline" else parts
    return ".".join(("toolcall_pipeline", *(inside[:-1] if inside[-1] == "__init__" else inside)))


def room_of(module: str) -> str:
    """The room of a module, or its own name at the top."""
    return [*module.split("."), ""][1] or module


def imported(path: Path, tree: ast.Module, *, deep: bool) -> Iterator[str]:
    """The modules that a module imports when it is imported itself; deep: those that it imports later too."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(tree) if deep else tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            stem = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            module = ".".join(part for part in stem if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def find_circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of modules that reach each other."""
    inside = {name: others & imports.keys() for name, others in imports.items()}

    def reach(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            new = inside[waiting.pop()] - seen
            waiting += new
            seen |= new
        return seen

    reached = {name: reach(name) for name in imports}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in imports}
    return [set(each) for each in groups if len(each) > 1]


def is_broad(node: ast.AST) -> bool:
    """Whether it catches every exception."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(each is None or ast.unparse(each) in _BROAD for each in caught)


def count_loaded(root: Path, program: str) -> str:
    """How many modules of ours a program has loaded at its end, or that it does not run."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603  # a program of this checkout
            [sys.executable, "-c", program + _LOADED],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout.rpartition("modules ")[2].strip() if done.returncode == 0 else "it does not run"


def checkout(commit: str, folder: str) -> Path:
    """The tree of a commit, in a folder."""
    made = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)  # noqa: S603, S607
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="tar")
    return Path(folder).resolve()


def last_release() -> str | None:
    """The last tag, or None."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return tag.stdout.strip() or None


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="make structure", description=__doc__)
    parser.add_argument("--beside", metavar="COMMIT", default=last_release(), help="default: the last tag")
    beside: str | None = parser.parse_args().beside
    before: dict[str, str] = {}
    if beside is not None:
        with tempfile.TemporaryDirectory() as folder:
            before = dict(figures(checkout(beside, folder)))
    print(f"{'':72}{beside or '':>22}{'now':>22}")
    for name, figure in figures(ROOT.resolve()):
        print(f"{name:72}{before.get(name, ''):>22}{figure:>22}")


if __name__ == "__main__":
    main()
