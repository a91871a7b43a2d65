"""RelayPolicy: what an operator decides about tools, and about the server behind a relay."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, cast

import attrs

from ..base.options import check_count, check_number, check_type, read_url, refuse
from ..base.setup_error import SetupError
from ..base.toml_file import IN_CODE
from ..messages import Wording
from ..messages.templates import Texts
from ..parameters import Limits
from ..privacy import REDACTED, Redact, neutralise
from ..tools import Effect, ToolView
from .rules import RuleSet

_INDEX = re.compile(r"\[\d+\]")


@attrs.frozen
class ToolPolicy:
    """The operator's decisions about one tool.

    Args:
        effect: The effect of a call: ``read``, ``idempotent`` or ``mutating``. Default None: as the annotations say if
            they are trusted, else ``mutating``.
        timeout: Seconds for each attempt, > 0. Default None: as for all tools.
        attempts: Attempts of a call, the first one included, ≥ 1. Default None: as for all tools.
        closed: Refuse each call. The tool stays in the list, which the relay does not change. Default False.
        verify_with: The tool that shows whether a lost call took effect. Default None: none.
    """

    effect: Effect | None = None
    timeout: float | None = None
    attempts: int | None = None
    closed: bool = False
    verify_with: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.effect not in (None, "read", "idempotent", "mutating"):  # "keyed": no server of MCP takes a key
            raise SetupError(f"`effect` must be read, idempotent or mutating, not {self.effect!r}")
        check_number("ToolPolicy", "timeout", self.timeout, above=0, optional=True, unit="seconds")
        check_count("ToolPolicy", "attempts", self.attempts, optional=True)
        check_type("ToolPolicy", "closed", self.closed, bool)
        check_type("ToolPolicy", "verify_with", self.verify_with, str, optional=True)


@attrs.frozen
class Budget:
    """One `Quota`, as a file says it.

    Args:
        calls: So many calls, > 0.
        per: Each of these has a budget of its own: ``conversation``, ``principal``, ``tool`` or ``turn``. Default
            ``conversation``.
        window: Seconds until it is there again, > 0. Default None: never.
    """

    calls: float
    per: Literal["conversation", "principal", "tool", "turn"] = "conversation"
    window: float | None = None

    def __attrs_post_init__(self) -> None:
        check_number("Budget", "calls", self.calls, above=0)
        if self.per not in ("conversation", "principal", "tool", "turn"):
            refuse("Budget", "per", "conversation, principal, tool or turn", self.per)
        check_number("Budget", "window", self.window, above=0, optional=True, unit="seconds")


@attrs.frozen
class RelayLimits:
    """Limits on the messages of a relay, so that neither end can fill its memory.

    Args:
        line_bytes: Bytes of one message, ≥ 1,000. A longer one is thrown away while it comes, and its sender gets an
            error. Default 16 MiB.
        in_flight: Requests of the client that have no answer yet, ≥ 1. Default 1,000.
        in_flight_bytes: Bytes of the calls among them, ≥ 1,000; one call alone may have more. Default 64 MiB.
        argument_bytes: Bytes of the arguments of one call, see `Limits`. Default 16 MiB.
        argument_depth: Levels of the arguments, see `Limits`. Default 64.
        argument_keys: Names and items in the arguments, see `Limits`. Default 50,000.
        server_wait: Seconds, > 0, that a message waits for a server that is started again. Default 10.
        list_wait: Seconds, > 0, for the server to list its tools, and to answer the greeting. Default 30.
    """

    line_bytes: int = 16 * 1024 * 1024
    in_flight: int = 1_000
    in_flight_bytes: int = 64 * 1024 * 1024
    argument_bytes: int = 16 * 1024 * 1024
    argument_depth: int = 64
    argument_keys: int = 50_000
    server_wait: float = 10.0
    list_wait: float = 30.0

    def __attrs_post_init__(self) -> None:
        check_count("limits", "line_bytes", self.line_bytes, least=1_000)
        check_count("limits", "in_flight", self.in_flight)
        check_count("limits", "in_flight_bytes", self.in_flight_bytes, least=1_000)
        check_number("limits", "server_wait", self.server_wait, above=0, unit="seconds")
        check_number("limits", "list_wait", self.list_wait, above=0, unit="seconds")
        self.of_arguments()

    def of_arguments(self) -> Limits:
        """The limits for the arguments of a call."""
        return Limits(bytes=self.argument_bytes, depth=self.argument_depth, keys=self.argument_keys)


@attrs.frozen
class TelemetryPolicy:
    """The target of spans and metrics. Without it the environment decides, see `toolcall_pipeline.telemetry.configure`.

    Args:
        endpoint: The URL of a collector. Default None: none, unless the environment names one.
        service_name: The name in the traces. Default None: as the environment says.
        console: Write each trace to stderr, as a tree. Default False.
        content: Record arguments and results. Default None: as the environment says.
        stages: Make a span for each stage. Default True.
    """

    endpoint: str | None = None
    service_name: str | None = None
    console: bool = False
    content: bool | None = None
    stages: bool = True

    def __attrs_post_init__(self) -> None:
        for name, kind in (("endpoint", str), ("service_name", str), ("content", bool)):
            check_type("telemetry", name, getattr(self, name), kind, optional=True)
        if self.endpoint is not None:
            read_url("endpoint", self.endpoint)
        check_type("telemetry", "console", self.console, bool)
        check_type("telemetry", "stages", self.stages, bool)


@attrs.frozen
class RelayPolicy:
    """The operator's decisions about tools, and about the server that has them.

    Args:
        rules: Rules that decide on each call. Default None: each call runs.
        budgets: How many calls may run. Default: as many as there are.
        renames: Further names that calls may have, each with the own name of the tool that it means, which rules see.
            Default: none.
        trust_annotations: Believe what the server says of the effects of its tools. Default False.
        canonical_names: Run a tool also if its name is written in another style, see ``Resolve``. Default True.
        timeout: Seconds for each attempt, > 0. Default None: no limit, the client has one.
        attempts: Attempts of a call, the first one included, ≥ 1. Default 3.
        redact: Names of arguments and of fields of results, or whole paths such as ``filter.token``, whose values are
            recorded nowhere. Default: none.
        tools: Decisions about single tools, by name.
        limits: How much is taken.
        telemetry: Where spans and metrics go. Default None: as the environment says.
        profile: How the texts for the model are worded, see `Wording`. Default ``default``.
        verbosity: See `Wording`. Default ``normal``.
        templates: Texts that replace the texts of the profile, see `Wording`. Default: none.
        listed: See `Wording`. Default None.
        locate: Returns the file and the line of a key, as ``policy.toml:9:`` and a blank. Default: a policy that was
            made in code has none.
        given: The names of the options that the file has. Default: none.
        version: The version of the file. Default "": none.
    """

    trust_annotations: bool = False
    canonical_names: bool = True
    timeout: float | None = None
    attempts: int = 3
    redact: tuple[str, ...] = ()
    tools: Mapping[str, ToolPolicy] = attrs.field(factory=dict[str, ToolPolicy], hash=False)
    limits: RelayLimits = RelayLimits()
    telemetry: TelemetryPolicy | None = None
    profile: str = "default"
    verbosity: str = "normal"
    templates: Mapping[str, Texts] = attrs.field(factory=dict[str, Any], hash=False)
    listed: int | None = None
    rules: RuleSet | None = attrs.field(default=None, kw_only=True)
    budgets: tuple[Budget, ...] = attrs.field(default=(), kw_only=True)
    renames: Mapping[str, str] = attrs.field(factory=dict[str, str], hash=False, kw_only=True)
    given: frozenset[str] = attrs.field(
        default=frozenset(), eq=False, repr=False, kw_only=True, metadata={IN_CODE: True}
    )
    version: str = attrs.field(default="", eq=False, kw_only=True, metadata={IN_CODE: True})
    locate: Callable[..., str] = attrs.field(default=lambda *_keys: "", eq=False, repr=False, metadata={IN_CODE: True})

    def __attrs_post_init__(self) -> None:
        check_type("policy", "trust_annotations", self.trust_annotations, bool)
        check_type("policy", "canonical_names", self.canonical_names, bool)
        check_number("policy", "timeout", self.timeout, above=0, optional=True, unit="seconds")
        check_count("policy", "attempts", self.attempts)
        if not all(isinstance(cast("object", name), str) and name for name in self.redact):
            raise SetupError(f"policy: `redact` must be an array of names, not {list(self.redact)!r}")
        _ = self.wording

    @property
    def wording(self) -> Wording | None:
        """The wording of texts for the model; None: the default."""
        words = Wording(self.profile, self.verbosity, self.templates, self.listed)
        return None if words == _DEFAULT_WORDING else words

    def find_mistakes(self, known: Collection[str], aliases: Collection[str] = ()) -> Iterator[str]:
        """The rules and renames that name a tool that is not there, and the renames that a tool has already, in words.

        Args:
            known: The own names of the tools.
            aliases: Their further names. Default: none.
        """
        if self.rules is not None:
            yield from self.rules.find_mistakes(known)
        for name, own in self.renames.items():
            if own not in known:
                yield f"{self.locate('renames', name)}{name!r} means {own!r}, and there is no such tool"
        yield from self.find_taken_names(known, aliases)

    def find_taken_names(self, known: Collection[str], aliases: Collection[str] = ()) -> Iterator[str]:
        """The renames that a tool has already, in words."""
        for name, own in self.renames.items():
            if own in known and (name in known or name in aliases):
                yield f"{self.locate('renames', name)}{name!r} is the name of a tool already, and means that one"

    def find_unknown_tools(self, known: Collection[str]) -> Iterator[str]:
        """Sentences for a log: names in the policy that the server does not have, and names that are taken."""
        told = "the policy names a tool that the server does not have: "
        for name in sorted(self.tools):
            check = self.tools[name].verify_with
            if name not in known:
                yield f"{self.locate('tools', name)}{told}{neutralise(name)}"
            if check and check not in known:
                yield f"{self.locate('tools', name, 'verify_with')}{told}{neutralise(check)}"
        yield from map(neutralise, self.find_taken_names(known))  # the pipeline tells of names that no tool has

    def check_tools(self, tools: ToolView) -> None:
        """Raise SetupError for the first of the mistakes; an empty registry is not checked."""
        for mistake in self.find_mistakes(tools.tools, tools.aliases) if len(tools) else ():
            raise SetupError(mistake)

    def of_tool(self, name: str) -> ToolPolicy:
        """Return the decisions about a tool."""
        return self.tools.get(name, _NOTHING)

    def make_redact(self) -> Redact | None:
        """A function for ``redact=`` of Trace; None if nothing is to be redacted."""
        if not self.redact:
            return None
        names = frozenset(self.redact)

        def redact(path: str, value: object) -> Any:
            plain = _INDEX.sub("", path)
            is_named = plain in names or plain.removeprefix("result.") in names or plain.rpartition(".")[2] in names
            return REDACTED if is_named else value

        return redact


_NOTHING = ToolPolicy()
_DEFAULT_WORDING = Wording(templates={})
