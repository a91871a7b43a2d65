"""Why there is no connection to an MCP server, told to the operator without the secrets of an address."""

from __future__ import annotations

import re
from typing import Final, cast

from ..errors import SetupError
from ..privacy import neutralise

_SHOWN: Final = 500  # characters of what a server or its transport said
_ADDRESS = re.compile(r"(?P<scheme>\w+://)(?:[^\s/?#'\"<>]*@)?(?P<place>[^\s?#'\"<>]*)(?P<rest>[?#][^\s'\"<>]*)?")


def find_first(exc: BaseException) -> BaseException:
    """The first failure in a group; what is no group, as it is."""
    while isinstance(exc, BaseExceptionGroup):
        exc = cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
    return exc


def as_setup_error(exc: BaseException) -> SetupError:
    """What is raised where a server cannot be added."""
    first = find_first(exc)
    if isinstance(first, SetupError):
        return first
    return SetupError(f"add_server: the server cannot be used: {neutralise(describe_failure(first), limit=_SHOWN)}")


def describe_failure(exc: BaseException) -> str:
    """A failure with its text: it is for the operator. Of an address only the part that holds no secret."""
    first = find_first(exc)
    return f"{type(first).__name__}: {_ADDRESS.sub(_shorten_address, str(first))}"


def _shorten_address(found: re.Match[str]) -> str:
    return found["scheme"] + found["place"] + ("?…" if found["rest"] else "")
