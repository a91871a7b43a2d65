"""Lazy packages: each public name is imported at its first use, so that importing the package takes next to no time.

The names are listed once, in the ``__init__.pyi`` beside the ``__init__.py``. Type checkers read that stub in place of
the package, and `attach` reads the same lines at run time, as the package lazy-loader does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make what a lazy package needs from its stub (PEP 562).

    Use it as ``__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)``.

    Args:
        package: Its ``__name__``.
        file: Its ``__file__``. Each line ``from .module import Name as Name`` of the stub beside it makes a name.

    Returns:
        A function that imports a name and sets it as an attribute of the package, so that Python asks only once; for an
        unknown name it raises AttributeError. A function that lists all attributes. The names of the stub, sorted.
    """
    with open(file.rpartition(".")[0] + ".pyi", encoding="utf-8") as stub:  # noqa: PTH123  # pathlib takes 5 ms to import
        lines = [line.split() for line in stub]
    homes = {words[3]: words[1] for words in lines if words[:1] == ["from"]}
    modules = {home.split(".")[1] for home in homes.values() if home.startswith(".")} - {""}  # "": of a room around it

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is not None and home != ".":
            value = getattr(import_module(home, package), name)
        elif home is not None or name in modules:
            value = import_module(f".{name}", package)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, list_names, sorted(homes)
