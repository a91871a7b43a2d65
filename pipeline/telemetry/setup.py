"""configure: what an application does once, so that its spans and metrics get somewhere. The library never does it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import attrs
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from ..errors import SetupError
from .queues import drain_all

if TYPE_CHECKING:
    from .sdk import Sampler, Signal, SpanExporter, Tally

Protocol: TypeAlias = Literal["http/protobuf", "grpc"]
_OTLP: dict[str, str] = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}  # what its exporters go by


@attrs.define(eq=False)
class Telemetry:
    """What `configure` set up. As a context manager it is shut down at the end of the block, else with the process."""

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    _parts: tuple[Any, ...] = attrs.field(default=(), repr=False)  # those of the two that hold something back
    _tallies: Sequence[Tally] = attrs.field(default=(), repr=False)

    @property
    def sent(self) -> int:
        """Spans that an exporter got rid of; with two exporters each span counts twice."""
        return sum(tally.sent for tally in self._tallies)

    @property
    def lost(self) -> int:
        """Spans that an exporter did not get rid of, for whatever reason it logged."""
        return sum(tally.lost for tally in self._tallies)

    def flush(self, timeout: float = 30.0) -> bool:
        """Send what is waiting, at most for so many seconds; False where it took longer or some of it was lost."""
        drain_all()
        lost, done = self.lost, True
        for part in self._parts:
            try:
                done &= part.force_flush(int(timeout * 1000)) is not False
            except Exception:  # noqa: BLE001  # a meter provider raises for a reader that failed
                done = False
        return done and self.lost == lost

    def shutdown(self) -> None:
        """Send what is waiting and end it: what is recorded from now on goes nowhere. A second time it does nothing."""
        atexit.unregister(self.shutdown)
        parts, self._parts = self._parts, ()
        if parts:
            drain_all()
        for part in parts:
            part.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def configure(
    *,
    service_name: str | None = None,
    endpoint: str | None = None,
    protocol: Protocol | None = None,
    traces: str | None = None,
    metrics: str | None = None,
    console: bool = False,
    resource: Mapping[str, str | bool | float] | None = None,
    sampler: Sampler | None = None,
    exporters: Sequence[SpanExporter] = (),
    globally: bool = True,
) -> Telemetry:
    """Set up the OpenTelemetry SDK by the standard variables; what is said here wins over them.

    For applications, once, before the first call. Needs ``pip install "toolcall-pipeline[otel]"``.

    Args:
        service_name: Over ``OTEL_SERVICE_NAME``.
        endpoint: The collector, as ``http://localhost:4318``; over ``OTEL_EXPORTER_OTLP_ENDPOINT``.
        protocol: Over ``OTEL_EXPORTER_OTLP_PROTOCOL`` and those of one signal. Default: ``http/protobuf``.
        traces: Over ``OTEL_TRACES_EXPORTER``: ``otlp`` (the default), ``console`` (JSON on stdout), ``none``, or any
            that is installed; several with commas between them.
        metrics: The same, over ``OTEL_METRICS_EXPORTER``. A backend for traces alone wants ``none``.
        console: Write each trace to stderr as a tree, too. Then OTLP is the default only where an endpoint is named.
        resource: What else is to be known of this process, over ``OTEL_RESOURCE_ATTRIBUTES``.
        sampler: Over ``OTEL_TRACES_SAMPLER``.
        exporters: Span exporters of your own. They take the place of that default, as the console does.
        globally: Make the providers the global ones. False: hand them to ``Trace(tracer_provider=…)`` yourself.

    Returns the `Telemetry`; with ``OTEL_SDK_DISABLED=true`` one that does nothing, whatever is said here. Raises
    SetupError where the SDK or an exporter is missing, for a protocol or an endpoint that is none, and where a provider
    is already the global one, as after a first ``configure()``.
    """
    if disabled():
        return Telemetry(NoOpTracerProvider(), NoOpMeterProvider())
    try:
        from . import sdk
    except ModuleNotFoundError as exc:
        raise not_installed("configure()", exc) from exc
    elsewhere = (console or bool(exporters)) and not endpoint

    def wanted(signal: Signal, given: str | None) -> list[tuple[str, dict[str, str]]]:
        names = _names(signal, given, default="none" if elsewhere and not _endpoint_said(signal) else "otlp")
        return [_exporter(signal, name, endpoint, protocol) for name in names]

    spans, measures = wanted("traces", traces), wanted("metrics", metrics)
    if globally:
        sdk.refuse_a_second(meter=bool(measures))
    described = sdk.described({**(resource or {}), **({"service.name": service_name} if service_name else {})})
    senders = [*(sdk.exporter("traces", *each) for each in spans), *exporters]
    tracer, tallies = sdk.tracing(described, sampler, senders, console=console)
    parts: tuple[Any, ...] = (tracer,)
    if measures:
        meter = sdk.metering(described, [sdk.exporter("metrics", *each) for each in measures])
        parts = (tracer, meter)
    telemetry = Telemetry(tracer, parts[-1] if measures else NoOpMeterProvider(), parts, tallies)
    atexit.register(telemetry.shutdown)
    if globally:
        sdk.install(*parts)
    return telemetry


def disabled() -> bool:
    """Whether the operator wants no telemetry at all."""
    return _said("OTEL_SDK_DISABLED").lower() == "true"


def not_installed(what: str, exc: ModuleNotFoundError) -> Exception:
    """A SetupError that says how to get the SDK; any other module that is missing is raised as what it is."""
    if not str(exc.name).startswith("opentelemetry"):
        return exc
    return SetupError(f'{what} needs the OpenTelemetry SDK: pip install "toolcall-pipeline[otel]"')


def _said(variable: str) -> str:
    """The specification has an empty variable mean the same as none."""
    return os.environ.get(variable, "").strip()


def _endpoint_said(signal: Signal) -> bool:
    return any(map(_said, ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")))


def _names(signal: Signal, given: str | None, default: str) -> list[str]:
    """The exporters wanted for a signal; none where ``none`` is among them."""
    said = given or _said(f"OTEL_{signal.upper()}_EXPORTER") or default
    names = [name.strip() for name in said.split(",") if name.strip()]
    return [] if "none" in names else names


def _exporter(signal: Signal, name: str, endpoint: str | None, protocol: Protocol | None) -> tuple[str, dict[str, str]]:
    """The name that an exporter is registered by, and what it is made with; all else it reads from the environment."""
    if name == "otlp":
        # The specification's default for new SDKs; Python's own is grpc, which is the heavier one of the two.
        of_signal, of_all = _said(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL"), _said("OTEL_EXPORTER_OTLP_PROTOCOL")
        said = protocol or of_signal or of_all or "http/protobuf"
        if said not in _OTLP:
            raise SetupError(f"the protocol of OTLP is {' or '.join(_OTLP)} here, not {said!r}")
        name = _OTLP[said]
    if endpoint is None or name not in _OTLP.values():
        return name, {}
    return name, {"endpoint": _address(endpoint, signal, name)}


def _address(endpoint: str, signal: Signal, name: str) -> str:
    """Where a signal goes: with the path that OTLP over HTTP has for it, of which gRPC has none."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port  # raises for what is no port
    except ValueError as exc:
        raise SetupError(f"endpoint={endpoint!r}: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"endpoint={endpoint!r}: an http:// or https:// URL is needed, such as http://localhost:4318")
    if name == _OTLP["grpc"]:
        return f"{parts.scheme}://{parts.netloc}"
    base = parts.path.rstrip("/").removesuffix("/v1/traces")  # written by those who know what it will become
    return parts._replace(path=f"{base}/v1/{signal}").geturl()
