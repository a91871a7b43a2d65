"""The mutants of `make mutants`: what is changed, and that a change reaches the functions that exist already."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mutants.__main__ import sample_of
from benchmarks.mutants.equivalents import EQUIVALENT
from benchmarks.mutants.operators import Mutant, mutants_of
from benchmarks.mutants.patching import Living
from benchmarks.mutants.rooms import ROOMS, WITH_FRAMEWORKS

ROOT = Path(__file__).parents[2]
CHANGES: list[tuple[str, list[str]]] = [
    ("return a < b", ["comparison a <= b", "return return None"]),
    ("return a is not b", ["comparison a is b", "return return None"]),
    ("return a and b", ["boolean a or b", "return return None"]),
    ("return not a", ["boolean a", "return return None"]),
    ("return a - b", ["arithmetic a + b", "return return None"]),
    ("return 1.5", ["return return None", "constant 2.5"]),
    ("return True", ["constant False"]),
    ("return f'{a} b'", ["return return None", "constant 'XX b'"]),
    ("return cast('int', a)", ["return return None"]),
    ("return None", []),
    ("a += b", ["arithmetic a -= b", "removed pass"]),
    ("a(b)", ["removed pass"]),
    ("'''A docstring.'''", []),
    ("if a:\n    raise b", ["condition if not a:", "removed pass"]),
    ("while a:\n    break", ["removed continue"]),
]


@pytest.mark.parametrize(("body", "changes"), CHANGES, ids=[body.splitlines()[0] for body, _ in CHANGES])
def test_what_is_changed_in_a_function(body: str, changes: list[str]) -> None:
    """Each operator makes one mutant for each place that it fits, and texts for readers stay as they are."""
    tree = ast.parse(f"def f(a, b):\n{textwrap.indent(body, '    ')}")
    assert sorted(f"{each.operator} {each.after}" for each in mutants_of("x.py", tree)) == sorted(changes)


def test_what_is_changed_around_functions() -> None:
    """Defaults and constants are changed; class bodies, annotations, decorators and what runs at import are not."""
    tree = ast.parse(
        "X: int = 1\nT = TypeVar('T')\nA: TypeAlias = list[1]\ndef make():\n    return 2\nY = make()\n"
        "class C:\n    z: int = 3\n    @cache(4)\n    def f(self, a: Literal[5] = 6, *, b=7): pass\n"
    )
    assert [(each.function, each.place, each.after) for each in mutants_of("x.py", tree)] == [
        ("X", "constant", "2"),
        ("C.f", "default", "7"),
        ("C.f", "default", "8"),
    ]


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Living:
    """Two modules of their own, the second of which holds what the first one has."""
    (tmp_path / "mutated_here.py").write_text(
        "import functools\n"
        "LIMIT = 5\n"
        "@functools.cache\n"
        "def is_small(n, most=None, *, factor=1):\n"
        "    return n * factor < (LIMIT if most is None else most)\n"
        "def make_adder(n):\n"
        "    def add(m):\n"
        "        return n + m\n"
        "    return add\n",
        encoding="utf-8",
    )
    (tmp_path / "mutated_holder.py").write_text(
        "from mutated_here import LIMIT, is_small, make_adder\nadd_two = make_adder(2)\n", encoding="utf-8"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("mutated_here", "mutated_holder"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module("mutated_holder")
    gc.freeze()  # as `tests/conftest.py` does after the tests are collected
    return Living.among(tmp_path, ["mutated_here.py"])


def mutant(living: Living, before: str, after: str) -> Mutant:
    (found,) = [
        each
        for each in mutants_of("mutated_here.py", living.tree("mutated_here.py"))
        if (each.before, each.after) == (before, after)
    ]
    return found


def test_a_change_reaches_whoever_holds_the_function(living: Living) -> None:
    """A decorated function, a default, a constant that was imported, a closure that was made before."""
    holder: Any = importlib.import_module("mutated_holder")
    assert (holder.is_small(5), holder.is_small(6, most=6), holder.is_small(3), holder.add_two(3)) == (
        False,
        False,
        True,
        5,
    )
    holder.is_small.cache_clear()
    for before, after in (
        ("n * factor < (LIMIT if most is None else most)", "n * factor <= (LIMIT if most is None else most)"),
        ("1", "2"),
        ("5", "6"),
        ("n + m", "n - m"),
    ):
        change = mutant(living, before, after)
        assert living.changes(change)
        living.put_in(change)
    assert (holder.LIMIT, holder.is_small(3), holder.is_small(4), holder.add_two(3)) == (6, True, False, -1)


def test_the_sample_is_the_same_again(living: Living) -> None:
    """It depends on the source and the seed, and lines that move change nothing."""
    first = sample_of("mutated_here.py", living, 3, "1")
    tree = ast.parse("# a comment\n\n" + (living.root / "mutated_here.py").read_text(encoding="utf-8"))
    assert {each.key for each in first} <= {each.key for each in mutants_of("mutated_here.py", tree)}
    assert [each.key for each in first] == [each.key for each in sample_of("mutated_here.py", living, 3, "1")]
    assert len(first) == 3


@pytest.mark.parametrize("room", ROOMS)
def test_each_file_of_a_room_can_be_mutated(room: str) -> None:
    """A file is imported under the name that the tests use, so that its functions are found."""
    files = ROOMS[room].files(ROOT)
    living = Living.among(ROOT, files)
    found = {Path(path) for path, _function, _line in living.functions}
    without = {file for file in files if ROOT / file not in found}
    assert not [file for file in without if any(isinstance(each, ast.FunctionDef) for each in living.tree(file).body)]


def test_what_is_named_exists() -> None:
    """Each pattern of a room finds files, and what is called equivalent is still a change that can be made."""
    for room in (*ROOMS.values(), *WITH_FRAMEWORKS.values()):
        assert all(list(ROOT.glob(each)) for each in room.sources)
        assert all([*(ROOT / "tests").glob(each), *(ROOT / "benchmarks/tests").glob(each)] for each in room.tests)
    files = {file for room in (*ROOMS.values(), *WITH_FRAMEWORKS.values()) for file in room.files(ROOT)}
    trees = {file: ast.parse((ROOT / file).read_text(encoding="utf-8")) for file in files}
    assert EQUIVALENT.keys() <= {each.key for file, tree in trees.items() for each in mutants_of(file, tree)}
