"""Puts a mutant into the modules that are imported already, so that no file is written and nothing imported again."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

import attrs

from .operators import Mutant, list_done

Key: TypeAlias = tuple[str, str, int]  # the file, the qualified name, the first line


@attrs.frozen
class Living:
    """The functions and modules of the files that are mutated, as they are now.

    A function is found wherever it is held (a decorator's, a closure's, a class's), because every holder shares the
    function object; so it is enough to give that one another code.
    """

    root: Path
    functions: dict[Key, list[FunctionType]]
    modules: dict[str, ModuleType]  # by file
    reads: set[tuple[str, str, str]]  # modules, functions of them, and the names that these read when they run
    trees: dict[str, ast.Module] = attrs.field(factory=dict[str, ast.Module])  # by file, read once

    @classmethod
    def among(cls, root: Path, files: Sequence[str]) -> Living:
        """Import the files, and find what is alive."""
        gc.unfreeze()  # `tests/conftest.py` hides from the collector what is imported, and so from this search
        for file in files:
            importlib.import_module(file.removesuffix(".py").replace("/", "."))
        paths = {str(root / file) for file in files}
        functions: dict[Key, list[FunctionType]] = {}
        reads: set[tuple[str, str, str]] = set()
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(root)):
                names = {name for code in _codes(each.__code__) for name in code.co_names}
                reads.update((each.__module__, each.__qualname__, name) for name in names)
                if each.__code__.co_filename in paths:
                    functions.setdefault(key_of(each.__code__), []).append(each)
        modules = {
            module.__file__: module
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None) in paths
        }
        by_file = {str(Path(path or "").relative_to(root)): each for path, each in modules.items()}
        return cls(root, functions, by_file, reads)

    def tree(self, file: str) -> ast.Module:
        """The source as it was when the run began."""
        if file not in self.trees:
            self.trees[file] = ast.parse((self.root / file).read_text(encoding="utf-8"))
        return self.trees[file]

    def changes(self, mutant: Mutant) -> dict[Key, CodeType] | None:
        """The codes that differ in the mutant; None if it cannot be put in, or changes nothing."""
        path, tree = self.root / mutant.file, self.tree(mutant.file)
        before, after = (
            {key_of(each): each for each in _codes(_compile(t, path))} for t in (tree, mutant.mutated(tree))
        )
        changed = {key: code for key, code in after.items() if code != before.get(key)}
        if mutant.place == "constant" and not self._is_read(mutant):
            return None  # what was made of it at import stays
        if not changed or mutant.place != "body":
            return changed or None
        living = [(function, code) for key, code in changed.items() for function in self.functions.get(key, ())]
        if not living or any(len(code.co_freevars) != len(f.__code__.co_freevars) for f, code in living):
            return None
        return changed

    def _is_read(self, mutant: Mutant) -> bool:
        """Whether a function reads the constant when it runs, and the changed one can be made."""
        modules, done = {each.__name__ for each in self._list_holders(mutant)}, list_done(self.tree(mutant.file))
        home = self.modules[mutant.file].__name__
        if not any(
            name == mutant.function and module in modules and not (module == home and function in done)
            for module, function, name in self.reads
        ):
            return False
        try:
            self._evaluate(mutant)
        except Exception:  # noqa: BLE001  # the source is run with a change that it was not made for
            return False
        return True

    def put_in(self, mutant: Mutant) -> None:
        """Make the change, for good: the process that does this is used for one mutant."""
        if mutant.place == "body":
            for key, code in (self.changes(mutant) or {}).items():
                for function in self.functions.get(key, ()):
                    function.__code__ = code
        elif mutant.place == "default":
            self._change_default(mutant)
        else:
            self._change_constant(mutant)

    def _change_default(self, mutant: Mutant) -> None:
        (field, place) = mutant.path[-1]
        value: Any = ast.literal_eval(mutant.node)
        for (path, name, _line), functions in self.functions.items():
            if path == str(self.root / mutant.file) and name == mutant.function:
                for function in functions:
                    if field == "defaults":
                        held = list(function.__defaults__ or ())
                        held[place or 0] = value
                        function.__defaults__ = tuple(held)
                    elif function.__kwdefaults__:
                        code = function.__code__
                        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
                        function.__kwdefaults__[names[place or 0]] = value

    def _change_constant(self, mutant: Mutant) -> None:
        value, holders = self._evaluate(mutant), self._list_holders(mutant)
        for module in holders:
            setattr(module, mutant.function, value)

    def _evaluate(self, mutant: Mutant) -> object:
        path = self.root / mutant.file
        statement: Any = mutant.mutated(self.tree(mutant.file)).body[mutant.path[0][1] or 0]
        code = compile(ast.Expression(statement.value), str(path), "eval", dont_inherit=True)
        return eval(code, vars(self.modules[mutant.file]))  # noqa: S307  # our own source

    def holders(self, mutant: Mutant) -> set[str]:
        """The files that have the constant of a mutant: its own, and those that import it."""
        return {module.__file__ or "" for module in self._list_holders(mutant)}

    def _list_holders(self, mutant: Mutant) -> list[ModuleType]:
        home = self.modules[mutant.file]
        value = vars(home)[mutant.function]
        everywhere = [each for each in list(sys.modules.values()) if type(each) is ModuleType]
        return [each for each in everywhere if vars(each).get(mutant.function, everywhere) is value]


def key_of(code: CodeType) -> Key:
    """The properties of a function that a change keeps."""
    return (code.co_filename, code.co_qualname, code.co_firstlineno)


def _compile(tree: ast.Module, path: Path) -> CodeType:
    return compile(tree, str(path), "exec", dont_inherit=True)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
