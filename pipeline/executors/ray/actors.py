"""An actor as its pool knows it, with the jobs and the functions that are on their way to it."""

from __future__ import annotations

from typing import Any

import anyio

from ...call import ValidCall
from ...event_loops import Signal
from ..remote_call import Job
from ..remote_progress import HeardSteps
from .batches import PackedReply


class PendingJob:
    """A job from before it is sent until its reply is there. It is one call's."""

    __slots__ = ("abandoned", "call", "done", "encoded", "error", "heard", "ref", "reply", "signal", "token")

    def __init__(self, encoded: Job | bytes, call: ValidCall, signal: Signal, token: str | None = None) -> None:
        self.encoded = encoded
        self.call = call
        self.signal = signal  # set when it is done
        self.token = token  # under which the worker keeps the progress of the job; None or "": no listener
        self.heard = None if call.report is None else HeardSteps(call)  # None: no listener
        self.done = False
        self.reply: PackedReply = None
        self.error: BaseException | None = None  # why there is no reply
        self.ref: Any = None  # Ray's ObjectRef; None for a job in a batch, which has one for all
        self.abandoned = False  # its caller was cancelled


class Registration:
    """One function on its way to one actor. Several calls may wait for it."""

    __slots__ = ("done", "error", "refusal")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.refusal = ""  # the actor's text why it has no such function
        self.error: BaseException | None = None  # why there is no reply


class Worker:
    """One actor, from the request for it until it is gone."""

    __slots__ = ("abandoned", "actor", "batch", "in_flight", "ready", "registered", "registrations")

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.ready = False
        self.in_flight = 0  # jobs
        self.abandoned = 0  # jobs in flight whose callers were cancelled
        self.registrations: dict[str, Registration] = {}
        self.registered: set[str] = set()  # keys of the functions that it has
        self.batch: list[PendingJob] = []  # sent at the end of this round of the event loop
