"""What an adapter says if the package of its framework is not installed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def requires(package: str) -> Generator[None, None, None]:
    """Around the imports of a framework: says what to install if they fail.

    Args:
        package: The framework's name at PyPI, which is the name of our extra.

    Raises:
        ImportError: The package is missing, or too old to have what the adapter uses.
    """
    try:
        yield
    except ImportError as exc:
        told = f"this module needs {package}: pip install 'toolcall-pipeline[{package}]' ({exc})"
        raise ImportError(told, name=exc.name, path=exc.path) from exc
