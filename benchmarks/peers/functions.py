"""The tools of every subject, and the loop by hand that is the unit of all costs.

This and all that a process of a framework imports does without our own packages: they are not installed there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Function: TypeAlias = Callable[..., Awaitable[int]]
SECRET_OF_A_CRASH = "canary-in-an-exception"  # noqa: S105  # each is looked for in texts, spans and logs
SECRET_OF_THE_USER = "canary-in-an-argument"  # noqa: S105
ATTEMPTS = 3  # in all, wherever something is tried again


class ServiceUnavailableError(ConnectionError):
    """A backend answered 503: a ConnectionError, since some retry these only, and a status, as HTTP clients have it."""

    status_code = 503


class Ran:
    """Numbers of bodies that have begun and that have ended, and whether the backend refuses the next call."""

    begun = 0
    done = 0
    refused = False


class Point(BaseModel):
    """A place on a grid."""

    x: int
    y: int


async def add(a: int, b: int) -> int:
    """Add two integers."""
    Ran.begun += 1
    Ran.done += 1
    return a + b


async def measure(name: str) -> int:
    """Say how long a name is."""
    Ran.begun += 1
    Ran.done += 1
    return len(name)


async def walk(to: Point) -> int:
    """Walk to a place, and say how far it was."""
    Ran.begun += 1
    Ran.done += 1
    return to.x + to.y


async def crash(a: int) -> int:
    """Fail, with a secret in the exception."""
    Ran.begun += 1
    raise ValueError(f"{SECRET_OF_A_CRASH} {a}")


async def look_up(a: int) -> int:
    """Look something up: it changes nothing. Its backend answers 503 once."""
    Ran.begun += 1
    if Ran.refused:
        Ran.refused = False
        raise ServiceUnavailableError("503 Service Unavailable")
    Ran.done += 1
    return a


async def pay(a: int) -> int:
    """Pay an amount. The payment is made, and then its answer is lost."""
    Ran.begun += 1
    Ran.done += 1
    raise ServiceUnavailableError("503 Service Unavailable")


async def wait(a: int, b: int) -> int:
    """Give way to the others, and add two integers."""
    Ran.begun += 1
    await asyncio.sleep(0)
    Ran.done += 1
    return a + b


FUNCTIONS: tuple[Function, ...] = (add, measure, walk, crash, look_up, pay, wait)
CHANGING = frozenset({"pay"})  # the others may be repeated; subjects with an option for that are configured so


class _Two(TypedDict):
    a: int
    b: int


_ADAPTER = TypeAdapter(_Two)
_BY_HAND: dict[str, tuple[TypeAdapter[_Two], Function]] = {"add": (_ADAPTER, add), "wait": (_ADAPTER, wait)}


async def by_hand(name: str, arguments: dict[str, Any]) -> str:
    """Do what people write: look up, validate, try, retry, and make a text. Its success is the unit of every cost."""
    found = _BY_HAND.get(name)
    if found is None:
        return f"unknown tool {name}"
    adapter, function = found
    try:
        params = adapter.validate_python(arguments)
    except ValidationError as exc:
        return str(exc)
    attempt = 1
    while True:
        try:
            return str(await function(**params))
        except (ConnectionError, TimeoutError) as exc:
            if attempt == ATTEMPTS:
                return str(exc)
            attempt += 1
            await asyncio.sleep(0)
        except Exception as exc:  # noqa: BLE001  # a tool may raise anything
            return str(exc)
