"""The configuration of a gateway: ``mcpServers``, as clients have it in JSON. Each mistake is told with its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import attrs

from ..adapters.common import is_dict
from ..base.options import read_url
from ..base.setup_error import SetupError
from ..privacy import neutralise

GatewayConfig: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
_TEXTS: Final = "an object of texts"
# What the value of a key must be: the first three by name, the others as Python's types.
_SHARED: Final[dict[str, Any]] = {
    "type": str,
    "transport": str,
    "timeout": int,  # milliseconds
    "description": str,
    "icon": str,
    "authentication": dict,
    "tools": dict,
    "include_tags": list,
    "exclude_tags": list,
    "prefix": str,
    "disabled": bool,
}
_LOCAL: Final = {"command": str, "args": list, "env": _TEXTS, "cwd": str, "keep_alive": bool, **_SHARED}
_REMOTE: Final = {
    "url": str,
    "headers": _TEXTS,
    "auth": str,
    "sse_read_timeout": (int, float),
    "max_sse_event_size": int,
    **_SHARED,
}
_WORDS: Final = {str: "a text", int: "a whole number", dict: "an object", list: "an array", bool: "true or false"}
_TRANSPORTS: Final = {"http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PREFIX = re.compile(r"[A-Za-z0-9_-]*")  # what each provider takes in the name of a tool


@attrs.frozen
class GatewayServer:
    """One server behind a gateway.

    Attributes:
        name: Its name in the configuration.
        prefix: Stands before the names of its tools, with a ``_`` between. "": they keep their own names.
        facts: Its options, as FastMCP takes them.
        place: Where it stands, for errors: the file and ``mcpServers.NAME``.
    """

    name: str
    prefix: str
    facts: Mapping[str, Any] = attrs.field(repr=False)
    place: str

    def find_tool(self, name: str) -> str | None:
        """The server's own name of a tool that a client calls so; None: it is no tool of this server."""
        before = f"{self.prefix}_" if self.prefix else ""
        return name[len(before) :] if name.startswith(before) else None


def read_servers(config: GatewayConfig) -> list[GatewayServer]:
    """Read the servers of a configuration, in their order, without those that are disabled.

    Args:
        config: The path of a JSON file, or what it holds: ``{"mcpServers": {name: {…}}}``. In ``env``, ``headers``,
            ``url`` and ``auth`` the text ``${NAME}`` is a variable of the environment.

    Raises:
        SetupError: Something is wrong; the text begins with the place.
    """
    where, given = ("config", config) if isinstance(config, Mapping) else (os.fspath(config), _load(Path(config)))
    if not is_dict(given) or "mcpServers" not in given:
        raise SetupError(f'{where}: it must be an object with the servers: {{"mcpServers": {{"NAME": {{…}}}}}}')
    for key in given:
        if key != "mcpServers":
            raise SetupError(f"{where}: unknown key `{neutralise(str(key))}`; known: mcpServers")
    listed = given["mcpServers"]
    if not is_dict(listed) or not listed:
        raise SetupError(f"{where}: mcpServers must be an object with at least one server")
    read = {str(name): _read(f"{where}: mcpServers.{neutralise(str(name))}", each) for name, each in listed.items()}
    used = {name: facts for name, facts in read.items() if not facts.pop("disabled", False)}
    if not used:
        raise SetupError(f"{where}: each of mcpServers is disabled")
    servers: dict[str, GatewayServer] = {}
    for name, facts in used.items():
        place = f"{where}: mcpServers.{neutralise(name)}"
        prefix = _read_prefix(name, facts, place, alone=len(used) == 1)
        other = servers.setdefault(prefix, GatewayServer(name, prefix, facts, place))
        if other.name != name:
            told = f"the prefix {prefix!r}" if prefix else "no prefix"
            raise SetupError(f"{place}: {told}, as {neutralise(other.name)} has; give it another `prefix`")
    return list(servers.values())


def _load(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise SetupError(f"{path}: it cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except json.JSONDecodeError as exc:
        what = "it is empty" if not text.strip() else f"it is no JSON: {exc.msg}"
        raise SetupError(f"{path}:{exc.lineno}: {what}") from exc
    except (ValueError, RecursionError) as exc:
        raise SetupError(f"{path}: {exc}") from exc


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:  # JSON takes the last one in silence
            raise ValueError(f"the key `{neutralise(key)}` stands twice in one object")
        made[key] = value
    return made


def _read(place: str, given: Any) -> dict[str, Any]:
    """Check one server, and put it into FastMCP's words."""
    if not is_dict(given):
        raise SetupError(f"{place}: it must be an object with `command` or `url`")
    facts = dict(cast("Mapping[str, Any]", given))
    if ("command" in facts) == ("url" in facts):
        raise SetupError(f"{place}: give either `command` or `url`")
    known: Mapping[str, Any] = _LOCAL if "command" in facts else _REMOTE
    for key, value in facts.items():
        if key not in known:
            raise SetupError(f"{place}: unknown key `{neutralise(str(key))}`; known: {', '.join(known)}")
        _check(f"{place}.{key}", known[key], value)
    kind = facts.pop("type", None) or facts.get("transport")
    facts.pop("transport", None)
    if "command" in facts:
        _check_local(place, facts["command"], kind)
    else:
        facts.update(_read_remote(place, facts["url"], kind))
    for key in ("env", "headers"):
        if key in facts:
            facts[key] = {name: _fill(f"{place}.{key}.{name}", value) for name, value in facts[key].items()}
    if "auth" in facts:
        facts["auth"] = _fill(f"{place}.auth", facts["auth"])
    return facts


def _check_local(place: str, command: str, kind: str | None) -> None:
    if kind not in (None, "stdio"):
        raise SetupError(f"{place}: a server with `command` speaks stdio, not {kind!r}")
    if not command.strip():
        raise SetupError(f"{place}.command: it must name a program")


def _read_remote(place: str, url: str, kind: str | None) -> dict[str, str | None]:
    if kind is not None and kind not in _TRANSPORTS:
        raise SetupError(f"{place}: `type` must be http or sse for a server with `url`, not {kind!r}")
    filled = _fill(f"{place}.url", url)
    try:
        read_url("url", filled)
    except SetupError:  # it may hold a secret, so it is not quoted
        raise SetupError(f"{place}.url: it must begin with http:// or https:// and name a host") from None
    return {"url": filled, "transport": None if kind is None else _TRANSPORTS[kind]}


def _check(place: str, wanted: Any, value: Any) -> None:
    if wanted is _TEXTS:
        if not is_dict(value) or not all(isinstance(each, str) for each in value.values()):
            raise SetupError(f"{place}: it must be {_TEXTS}")
    elif not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise SetupError(f"{place}: it must be {_WORDS.get(wanted, 'a number')}")
    elif isinstance(value, list) and not all(isinstance(each, str) for each in cast("list[Any]", value)):
        raise SetupError(f"{place}: it must be an array of texts")
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
        raise SetupError(f"{place}: it must be 0 or more")


def _fill(place: str, text: str) -> str:
    for variable in _VARIABLE.findall(text):
        if variable not in os.environ:
            raise SetupError(f"{place}: the environment has no variable {variable}")
    return _VARIABLE.sub(lambda found: os.environ[found[1]], text)


def _read_prefix(name: str, facts: dict[str, Any], place: str, *, alone: bool) -> str:
    if "prefix" in facts:
        prefix: str = facts.pop("prefix")
        if not _PREFIX.fullmatch(prefix):
            raise SetupError(f"{place}.prefix: it may have letters, digits, `_` and `-` alone, not {prefix!r}")
        return prefix
    if alone:
        return ""
    prefix = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")
    if not prefix:
        raise SetupError(f"{place}: its name makes no prefix for its tools; give it a `prefix`")
    return prefix
