"""Do the classes that the table of exceptions names still exist? A client that renames one would lose its meaning."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator

from toolcall_pipeline.tools.client_exceptions import MEANINGS

# Modules to import so that every class of a package is loaded, where the package itself does not load them.
_MODULES = {
    "asyncpg": ("asyncpg.exceptions",),
    "azure": ("azure.core.exceptions",),
    "botocore": ("botocore.exceptions",),
    "google": ("google.auth.exceptions", "google.api_core.exceptions"),
    "grpc": ("grpc", "grpc.aio"),
    "http": ("http.client",),
    "pinecone": ("pinecone.errors.exceptions",),
    "pymongo": ("pymongo.errors",),
    "requests": ("requests.exceptions",),
    "sqlalchemy": ("sqlalchemy.exc", "sqlalchemy.dialects.postgresql.asyncpg"),
    "trio": ("trio",),
    "urllib": ("urllib.error",),
    "anthropic": ("anthropic", "anthropic.lib.credentials._workload"),
}
# A package does not have all the names of a row that it shares with its kin.
_SHARED = {
    "httpcore": {"TransportError", "DecodingError", "TooManyRedirects"},
    "httpcore2": {"TransportError", "DecodingError", "TooManyRedirects"},
}


def find_missing(package: str) -> set[str]:
    """The names in the table that the installed package does not have.

    Raises:
        ImportError: The package is not installed.
    """
    for module in _MODULES.get(package, (package,)):
        importlib.import_module(module)
    classes = (each for each in _subclasses(BaseException) if str(each.__module__).partition(".")[0] == package)
    return set(MEANINGS[package]) - {each.__name__ for each in classes} - _SHARED.get(package, set())


def is_installed(package: str) -> bool:
    """Whether its modules can be imported here: several packages share the name ``google``."""
    try:
        return all(importlib.util.find_spec(module) is not None for module in _MODULES.get(package, (package,)))
    except ModuleNotFoundError:  # the package around a module
        return False


def _subclasses(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for each in cls.__subclasses__():
        yield from _subclasses(each)
