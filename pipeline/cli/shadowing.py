"""Modules of an application that have the name of one of our packages, so that Python may import the wrong one."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

OUR_PACKAGES = ("pipeline", "middlewares")
WAY_OUT = "rename it, or move it into a package of your application"
_ROOT = Path(__file__).resolve().parents[2]


def find_shadow(name: str, path: list[str]) -> str | None:
    """The file of another module that ``import name`` would find on this path before our package of that name.

    Nothing is imported. None if our package comes first, or if there is none of that name.
    """
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.origin is None or Path(spec.origin).resolve().parent == _ROOT / name:
        return None
    return spec.origin


def explain_shadow(name: str, file: str) -> str:
    """One line for the error."""
    return f"{file} hides the package {name!r} of toolcall-pipeline: {WAY_OUT}"


def check_middlewares() -> None:
    """Exit with code 2 if this process would import another ``middlewares``: the commands need ours."""
    file = None if "middlewares" in sys.modules else find_shadow("middlewares", sys.path)
    if file is not None:
        print(f"toolcall: {explain_shadow('middlewares', file)}", file=sys.stderr)
        sys.exit(2)
