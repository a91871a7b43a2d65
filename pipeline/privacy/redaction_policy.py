"""Redact calls: every report, span, event, row and log record is made from a call that this module redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

import attrs

from ..base.setup_error import SetupError
from ..engine.call import Call, ValidCall
from ..engine.errors import Repair
from .masking import ForeignText, Mask, SecretValues
from .public_text import REDACTED, Redact

if TYPE_CHECKING:
    from ..tools.definition import Tool
    from .secret_guard import SecretGuard

_MAX_COMPILED = 100  # tools whose parameters are compiled to learn whether they declare secrets
_NOTHING: tuple[object, ...] = (None, "", {})


@attrs.frozen
class RedactedCall:
    """One call, as it may be recorded.

    Args:
        call: The call, with arguments that may be recorded.
        repairs: Its repairs, with values that may be recorded.
        mask: Removes its secrets from a text. None: it has no secrets.
        hook: The application's own ``redact``, or None.
    """

    call: Call
    repairs: tuple[Repair, ...] = ()
    mask: Mask | None = None
    hook: Redact | None = None

    def hide(self, text: str) -> str:
        """Return the text without the secrets of the call."""
        return text if self.mask is None else self.mask(text)

    def show(self, text: str, path: str) -> str:
        """Return a text without the call's secrets, and as the application's ``redact`` returns it for that path."""
        text = self.hide(text)
        if self.hook is None:
            return text
        from .redaction import Redaction

        shown = Redaction(None, self.hook).redact_at((), text, path)
        return shown if isinstance(shown, str) else REDACTED


@attrs.frozen
class RedactionPolicy:
    """Redacts the calls of one pipeline.

    Args:
        registries: Where the pipeline finds its tools.
        hook: Called with the path and the value of each value that is to be recorded. None: there is none.
        foreign_text: Whether texts of others are recorded of a tool with secrets, see `Mask`.
    """

    registries: Sequence[Iterable[Tool[..., Any]]] = ()
    hook: Redact | None = None
    foreign_text: ForeignText = "withhold"
    _known: dict[str, object] = attrs.field(factory=dict[str, object], init=False, repr=False, eq=False)

    def redact(
        self,
        call: Call,
        tool: Tool[..., Any] | None,
        repairs: tuple[Repair, ...] = (),
        params: Mapping[str, Any] | None = None,
    ) -> RedactedCall:
        """Redact a call for reports, spans and logs. Never raises.

        Args:
            call: The call as it was sent.
            tool: The tool that was found. None: no tool.
            repairs: The repairs of the call.
            params: The params that its arguments became. Default None: they were not valid, or are unknown.

        Where any tool of the pipeline declares a secret, the arguments of a call without a tool are withheld, because
        its name may be a misspelling of that tool's name. So is all of a composite tool: its calls have reports of
        their own.
        """
        try:
            guard = find_guard(tool)
            if guard is None and (tool is None or tool.composite) and self.may_hold_secrets():
                shown = call if call.arguments in _NOTHING else _with(call, REDACTED)
                return RedactedCall(shown, _withhold(repairs), None if tool is None else _WITHHOLDING, self.hook)
            if guard is None and self.hook is None:
                return RedactedCall(call, repairs)
            from .redaction import Redaction

            if self.hook is not None:  # what is secret was taken out of them when they were made
                only_hook = Redaction(None, self.hook)
                repairs = tuple(
                    attrs.evolve(
                        each,
                        before=only_hook.redact_at((), each.before, each.path),
                        after=only_hook.redact_at((), each.after, each.path),
                    )
                    for each in repairs
                )
            arguments = Redaction(None if guard is None else guard.schema, self.hook).redact(call.arguments)
            if guard is None:
                return RedactedCall(_with(call, arguments), repairs, None, self.hook)
            mask = guard.make_mask(call.arguments, params, self.foreign_text)
            return RedactedCall(_with(call, mask.arguments(arguments)), repairs, mask, self.hook)
        except Exception:  # noqa: BLE001  # a foreign mapping may raise anything, and so may a type without a schema
            return RedactedCall(_with(call, REDACTED), _withhold(repairs), _WITHHOLDING, self.hook)

    def may_hold_secrets(self) -> bool:
        """Whether a tool of the pipeline declares a secret. The answer is kept until a registry changes."""
        versions = tuple(getattr(registry, "version", None) for registry in self.registries)
        if self._known.get("versions") != versions or None in versions:
            self._known["holds"] = self._look_for_secrets()
            self._known["versions"] = versions
        return bool(self._known["holds"])

    def _look_for_secrets(self) -> bool:
        compiled = 0
        for registry in self.registries:
            for tool in registry:
                if not tool.parameters.is_compiled:
                    compiled += 1
                    if compiled > _MAX_COMPILED:
                        return True
                if find_guard(tool) is not None:
                    return True
        return False


def find_guard(tool: Tool[..., Any] | None) -> SecretGuard | None:
    """Return the guard of a tool's secrets; None if it declares none. Compiles its parameters.

    Raises:
        SetupError: They do not compile.
    """
    if tool is None:
        return None
    parameters = tool.parameters
    if not parameters.is_compiled:
        parameters.compile()
    return parameters.secrets


def make_mask(
    call: Call,
    tool: Tool[..., Any] | None,
    params: Mapping[str, Any] | None = None,
    foreign_text: ForeignText = "withhold",
) -> Mask | None:
    """Make the mask of a call. None if its tool declares no secrets, or is not compiled.

    A tool whose parameters were not compiled has not run. For the ``params`` see `RedactionPolicy.redact`. Of a
    composite tool, whose calls may hold secrets of other tools, all is withheld where one of the pipeline declares any.
    """
    guard = None if tool is None else tool.parameters.secrets
    if guard is None:
        return _WITHHOLDING if tool is not None and tool.composite and _may_pass_secrets(call) else None
    return guard.make_mask(call.arguments, call.params if isinstance(call, ValidCall) else params, foreign_text)


def redact_arguments(call: Call, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> object:
    """The valid arguments of a call as a store keeps them: without declared secrets, also those sent again elsewhere.

    Args:
        call: The call.
        tool: Its tool, whose parameters are compiled.
        arguments: Its arguments as JSON values. Of a composite tool the names are kept.
    """
    guard = tool.parameters.secrets
    if guard is not None:
        return guard.redact_all(arguments)
    return dict.fromkeys(arguments, REDACTED) if tool.composite and _may_pass_secrets(call) else arguments


def _may_pass_secrets(call: Call) -> bool:
    """Whether a tool of the pipeline that runs a call declares a secret."""
    return call.guards is not None and any(guard.may_pass_secrets for guard in call.guards.each)


def check_foreign_text(owner: object, attribute: attrs.Attribute[Any], given: object) -> None:
    """A validator of attrs. Raises SetupError for anything but a `ForeignText`."""
    if given not in get_args(ForeignText):
        raise SetupError(f"{type(owner).__name__}: `{attribute.name}` must be 'withhold' or 'mask', not {given!r}")


def withholds(tool: Tool[..., Any], foreign_text: ForeignText = "withhold") -> bool:
    """Whether texts of others about the calls of a tool are withheld, because it declares secrets."""
    return foreign_text == "withhold" and tool.parameters.secrets is not None


def _with(call: Call, arguments: object) -> Call:
    return call if arguments is call.arguments else attrs.evolve(call, arguments=arguments)


def _withhold(repairs: tuple[Repair, ...]) -> tuple[Repair, ...]:
    return tuple(attrs.evolve(each, before=REDACTED, after=REDACTED) for each in repairs)


_WITHHOLDING: Final = Mask(lambda: SecretValues(is_full=True))
