"""The names of a package, each imported when it is first used, so that the import takes next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_at_first_use(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package (PEP 562).

    Type checkers do not read it: they see the same imports below ``if TYPE_CHECKING:``.

    Args:
        package: Its ``__name__``.
        names: What each of its modules provides, with blanks between. The modules themselves are found, too.

    Returns:
        A function that imports a name, and sets it as an attribute: Python asks only once. It raises AttributeError for
        any other name.
    """
    homes = {name: module for module, provided in names.items() for name in provided.split()}

    def find(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(f"{package}.{homes[name]}"), name)
        elif name in names:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return find
