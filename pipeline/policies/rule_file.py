"""The rules of a file that is read again when it has changed."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self, TypeAlias

import anyio
import attrs

from ..base import timing
from ..base.forking import register_after_fork
from ..base.setup_error import SetupError
from ..engine.call import ValidCall
from ..privacy import get_logger
from ..tools import ToolView
from .policy_file import read_policy
from .relay_policy import RelayPolicy
from .rules import JUDGED, Action, Decision, RuleSet

_EVERY = 0.3  # seconds between two looks at the file; two of them, and what lies between, are less than one second
_TIMER = 0.15  # seconds between two of the timer's questions whether a look is due
_logger = get_logger()
_Stamp: TypeAlias = tuple[int, ...] | None  # None: there is no such file


@attrs.define(eq=False)
class RuleFile:
    """Rules that stand for a `RuleSet`: those of the file as it was last right.

    While it is open a timer looks at the file, and so does a call where nobody has for a while: what is written holds
    within a second. A file that has changed is read once two looks have found the same, for it may be in the middle of
    being written. One that is gone, empty or wrong, that has no rules,
    or that has a rule whose stage or tool the pipeline lacks, is logged, and the rules stay as they are. Its other
    options are read at the start alone. Threads may share it.

    Args:
        path: Where the file is.

    Attributes:
        possible: The actions for which the pipeline has a stage.
        tools: The tools that a rule may name. None: any.

    Raises:
        SetupError: As `read_policy`; or the file has no rules.
    """

    path: Path
    possible: frozenset[Action] = attrs.field(init=False)
    tools: ToolView | None = attrs.field(init=False, repr=False, default=None)
    _rules: RuleSet = attrs.field(init=False, repr=False)
    _read: _Stamp = attrs.field(init=False, repr=False)  # of the file as it was read
    _last: _Stamp = attrs.field(init=False, repr=False)  # of the file at the last look
    _next: float = attrs.field(init=False, repr=False)
    _lock: Lock = attrs.field(init=False, repr=False, factory=Lock)
    _closing: Event = attrs.field(init=False, repr=False, factory=Event)  # of the timer

    def __attrs_post_init__(self) -> None:
        register_after_fork(self._renew_lock)
        self._read = self._last = self._stamp()
        self._next = timing.monotonic() + _EVERY
        self._rules = self._make()
        always: tuple[Action, ...] = ("allow", "deny")
        self.possible = self._rules.actions.union(always)

    async def __aenter__(self) -> Self:
        """Read the file if it has changed since, and start the timer."""
        self._next = timing.monotonic()
        self._look_if_due()
        if self._last != self._read:
            await anyio.sleep(_EVERY)  # it may be in the middle of being written
            self._next = timing.monotonic()
            self._look_if_due()
        self._closing = Event()
        Thread(target=self._keep_looking, args=(self._closing,), name="toolcall-policy", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the timer."""
        self._closing.set()

    def _keep_looking(self, closing: Event) -> None:
        """In the thread."""
        while not closing.wait(_TIMER):
            self._look_if_due()

    @property
    def rules(self) -> RuleSet:
        """The rules that hold now."""
        self._look_if_due()
        return self._rules

    @property
    def version(self) -> str:
        """The version of the rules that hold now."""
        return self.rules.version

    def of(self, call: ValidCall) -> RuleSet:
        """The rules by which the stage `Policy` judged a call: those hold for all stages inside of it."""
        return call.get_state(JUDGED, None) or self.rules

    def decide(self, call: ValidCall) -> Decision:
        """As `RuleSet.decide`."""
        return self.of(call).decide(call)

    def needs_approval(self, call: ValidCall) -> str | bool:
        """As `RuleSet.needs_approval`."""
        return self.of(call).needs_approval(call)

    def _look_if_due(self) -> None:
        if timing.monotonic() >= self._next and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()

    def _look(self) -> None:
        self._next = timing.monotonic() + _EVERY
        before, self._last = self._last, self._stamp()
        if self._last == self._read or self._last != before:
            return
        self._read = self._last
        old = self._rules.version
        try:
            made = self._make()
            self._check(made)
        except SetupError as exc:
            _logger.error("Policy: the rules stay those of version %s: %s", old, exc)  # noqa: TRY400  # the text says it
            return
        if made.version != old:
            made.replaced, self._rules = old, made
            _logger.warning("Policy: version %s of %s takes the place of %s", made.version, self.path, old)

    def _renew_lock(self) -> None:
        self._lock = Lock()  # a thread of the parent may have held it

    def _make(self) -> RuleSet:
        made = read_policy(self.path).rules
        if made is None:
            raise SetupError(f"{self.path}: the policy has neither `rules` nor `default`")
        return made

    def _check(self, made: RuleSet) -> None:
        if lacking := sorted(made.actions - self.possible):
            raise SetupError(f"{self.path}: a rule says `{lacking[0]}`, and the pipeline has no stage for it")
        if self.tools is not None:
            RelayPolicy(rules=made).check_tools(self.tools)

    def _stamp(self) -> _Stamp:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
