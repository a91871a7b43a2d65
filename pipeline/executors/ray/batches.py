"""The jobs of a batch share one pickle, and so do the replies to them.

Most calls of a batch are of one tool, with plain arguments, and return plain values. Their common part is
written once, so that a job is its arguments and a reply its value: the rest would take longer than a tiny tool.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from ..remote_call import Job

PackedReply: TypeAlias = Any  # what the tool returned, if that is plain; else a pickle of the whole reply


def pack_jobs(jobs: Sequence[Job | bytes]) -> bytes:
    """Pickle jobs: the arguments alone of those that have the function of the first one and no headers of a trace."""
    key = next((job[0] for job in jobs if type(job) is tuple), None)
    packed = [job[1] if type(job) is tuple and job[3] is None and job[0] == key else job for job in jobs]
    return pickle.dumps((key, packed))  # faster than Ray's own


def unpack_jobs(packed: bytes) -> list[Job | bytes]:
    """The jobs that `pack_jobs` was given."""
    key, jobs = cast("tuple[Any, list[Any]]", pickle.loads(packed))  # noqa: S301  # from this cluster's driver
    return [(key, job, None, None) if type(job) is dict else job for job in jobs]


def pack_replies(replies: Iterable[PackedReply]) -> bytes:
    """Pickle the replies to a batch."""
    return pickle.dumps(list(replies))


def unpack_replies(packed: bytes) -> list[PackedReply]:
    """The replies that `pack_replies` was given."""
    return cast("list[PackedReply]", pickle.loads(packed))  # noqa: S301  # from our own worker
