"""Calls as part of a trace that began in another process."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry.context import attach, detach, get_current
from opentelemetry.propagators.textmap import DefaultGetter


@contextmanager
def continued(carrier: Mapping[str, str]) -> Generator[None]:
    """Inside the block, calls belong to the trace that the carrier names.

    A carrier is a mapping that travelled with a request: HTTP headers, in any case, or the ``_meta`` of an MCP request.
    The global propagators read it, which are W3C Trace Context and Baggage unless set otherwise. If the carrier names
    no trace, nothing changes. In an async generator, do not ``yield`` inside the block: the context would leak to the
    consumer.
    """
    from opentelemetry.propagate import extract  # searches all installed packages for propagators, which takes 15 ms

    token = attach(extract(carrier, get_current(), _AnyCase()))
    try:
        yield
    finally:
        detach(token)


class _AnyCase(DefaultGetter):
    """Finds a header in any case: ``dict(request.headers)`` of many frameworks has ``Traceparent`` (RFC 9110, 5.1)."""

    def get(self, carrier: Mapping[str, list[str] | str], key: str) -> list[str] | None:
        found = (name for name in carrier if name.lower() == key.lower())
        return super().get(carrier, key if key in carrier else next(found, key))
