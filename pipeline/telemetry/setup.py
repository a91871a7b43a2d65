"""configure: sends spans, metrics and logs to a backend. An application calls it once; the library never does."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import attrs
from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from ..base.options import read_items, read_url, refuse
from ..base.semconv import SCOPE
from ..base.setup_error import SetupError

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

    from .sdk import CountingExporter, Sampler, Signal, SpanExporter

OtlpProtocol: TypeAlias = Literal["http/protobuf", "grpc"]
_OTLP: dict[str, str] = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}  # their exporters' entry points


@attrs.define(eq=False)
class Telemetry:
    """The providers of `configure`. It shuts down at the end of the process or, as a context manager, of the block.

    Args:
        tracer_provider: Where spans go.
        meter_provider: Where metrics go.
        logger_provider: Where log records go. None: they are not exported.
    """

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    logger_provider: LoggerProvider | None = None
    _providers: tuple[Any, ...] = attrs.field(default=(), repr=False)  # to flush and to shut down
    _exporters: Sequence[CountingExporter] = attrs.field(default=(), repr=False)

    @property
    def sent(self) -> int:
        """Spans that an exporter delivered. With two exporters each span counts twice."""
        return sum(exporter.sent for exporter in self._exporters)

    @property
    def lost(self) -> int:
        """Spans that an exporter could not deliver; it logs the reason. With two exporters a span may count twice."""
        return sum(exporter.lost for exporter in self._exporters)

    def flush(self, timeout: float = 30.0) -> bool:
        """Send everything that waits.

        Args:
            timeout: Seconds, for each of the providers. Default 30.

        Returns:
            False if it took longer, or if spans were lost.
        """
        lost, done = self.lost, True
        for provider in self._providers:
            try:
                done &= provider.force_flush(int(timeout * 1000)) is not False
            except Exception:  # noqa: BLE001  # a meter provider passes on the exceptions of its readers, of any type
                done = False
        return done and self.lost == lost

    def shutdown(self) -> None:
        """Send everything that waits and stop. Later spans, metrics and records are lost. Idempotent."""
        atexit.unregister(self.shutdown)
        providers, self._providers = self._providers, ()
        for provider in providers:
            provider.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def configure(
    *,
    service_name: str | None = None,
    endpoint: str | None = None,
    protocol: OtlpProtocol | None = None,
    traces: str | None = None,
    metrics: str | None = None,
    logs: str | None = None,
    loggers: Iterable[str] = (),
    console: bool = False,
    resource: Mapping[str, str | bool | float] | None = None,
    sampler: Sampler | None = None,
    exporters: Sequence[SpanExporter] = (),
    globally: bool = True,
) -> Telemetry:
    """Set up the OpenTelemetry SDK from the standard environment variables; an argument wins over its variable.

    Call it once, before the first call. It needs ``pip install "toolcall-pipeline[otel]"``.

    Args:
        service_name: The name of your application. None: ``OTEL_SERVICE_NAME``.
        endpoint: The URL of the collector, for instance ``http://localhost:4318``. None:
            ``OTEL_EXPORTER_OTLP_ENDPOINT``, or the exporter's own default.
        protocol: ``http/protobuf`` or ``grpc``. None: ``OTEL_EXPORTER_OTLP_PROTOCOL`` and its variants for one signal,
            or ``http/protobuf``.
        traces: The span exporter: ``otlp``, ``console`` (JSON on stdout), ``none``, or the name of any that is
            installed; several are separated by commas. None: ``OTEL_TRACES_EXPORTER``, or ``otlp``.
        metrics: The same for metrics; use ``none`` with a backend that takes traces only. None:
            ``OTEL_METRICS_EXPORTER``, or ``otlp``.
        logs: The same for the records of the logger ``toolcall_pipeline``; a crash goes with its stack and the text of
            its exception. None: ``OTEL_LOGS_EXPORTER``, or ``otlp``.
        loggers: Names of further loggers whose records are exported. "": the root logger, so all of them. Levels stay
            as they are set. Default: none.
        console: Also write each trace to stderr, as a tree. The default exporter is then ``none`` instead of ``otlp``,
            unless an endpoint is given.
        resource: Attributes of this process. They win over ``OTEL_RESOURCE_ATTRIBUTES``.
        sampler: None: ``OTEL_TRACES_SAMPLER``.
        exporters: Span exporters of your own. As with ``console``, the default is then ``none``.
        globally: Make the providers the global ones. False: pass them on, ``Trace(tracer_provider=…)``.

    Returns a `Telemetry`. Under ``OTEL_SDK_DISABLED=true`` it does nothing, whatever the arguments.

    Raises:
        SetupError: The SDK or an exporter is not installed; the protocol or the endpoint is not valid; or a global
            provider is already set, for instance by an earlier ``configure()``.
    """
    if is_disabled():
        return Telemetry(NoOpTracerProvider(), NoOpMeterProvider())
    try:
        from . import log_export, sdk
    except ModuleNotFoundError as exc:
        raise explain_missing_sdk("configure()", exc) from exc
    names = _read_loggers(loggers)
    goes_elsewhere = (console or bool(exporters)) and not endpoint

    def choose(signal: Signal, given: str | None) -> list[tuple[str, dict[str, str]]]:
        default = "none" if goes_elsewhere and not _has_endpoint(signal) else "otlp"
        names = _choose_names(signal, given, default)
        return [_choose_exporter(signal, name, endpoint, protocol) for name in names]

    for_traces, for_metrics, for_logs = choose("traces", traces), choose("metrics", metrics), choose("logs", logs)
    if globally:
        sdk.refuse_second_provider(meter=bool(for_metrics))
        if for_logs:
            log_export.refuse_second_logger_provider()
    about = sdk.make_resource({**(resource or {}), **({"service.name": service_name} if service_name else {})})
    span_exporters = [*(sdk.make_exporter("traces", *chosen) for chosen in for_traces), *exporters]
    metric_exporters = [sdk.make_exporter("metrics", *chosen) for chosen in for_metrics]
    log_exporters = [sdk.make_exporter("logs", *chosen) for chosen in for_logs]
    tracer, counting = sdk.make_tracer_provider(about, sampler, span_exporters, console=console)
    meter = sdk.make_meter_provider(about, metric_exporters) if metric_exporters else None
    log = log_export.LogExport(tracer, log_exporters, (SCOPE, *names)) if log_exporters else None
    telemetry = Telemetry(
        tracer,
        NoOpMeterProvider() if meter is None else meter,
        None if log is None else log.provider,
        tuple(each for each in (tracer, meter, log) if each is not None),
        counting,
    )
    atexit.register(telemetry.shutdown)
    if globally:
        sdk.set_global_providers(tracer, meter)
        if log is not None:
            log_export.set_global_logger_provider(log.provider)
    return telemetry


def is_disabled() -> bool:
    """Whether ``OTEL_SDK_DISABLED`` switches telemetry off."""
    return _read_variable("OTEL_SDK_DISABLED").lower() == "true"


def explain_missing_sdk(what: str, exc: ModuleNotFoundError) -> Exception:
    """Return a SetupError that says how to install the SDK; if another module is missing, the exception itself."""
    if not str(exc.name).startswith("opentelemetry"):
        return exc
    return SetupError(f'{what} needs the OpenTelemetry SDK: pip install "toolcall-pipeline[otel]"')


def _read_loggers(given: object) -> list[str]:
    names = read_items("configure", "loggers", given, "names of loggers")
    if not all(isinstance(name, str) for name in names):
        refuse("configure", "loggers", "a collection of names of loggers", names)
    return names


def _read_variable(name: str) -> str:
    """Return an environment variable; empty and unset mean the same, as the specification says."""
    return os.environ.get(name, "").strip()


def _has_endpoint(signal: Signal) -> bool:
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return any(map(_read_variable, variables))


def _choose_names(signal: Signal, given: str | None, default: str) -> list[str]:
    """Return the names of the exporters for a signal; empty if one of them is ``none``."""
    written = given or _read_variable(f"OTEL_{signal.upper()}_EXPORTER") or default
    names = [name.strip() for name in written.split(",") if name.strip()]
    return [] if "none" in names else names


def _choose_exporter(
    signal: Signal, name: str, endpoint: str | None, protocol: OtlpProtocol | None
) -> tuple[str, dict[str, str]]:
    """Return the entry point of an exporter and its arguments. It reads all else from the environment itself."""
    if name == "otlp":
        name = _OTLP[_choose_protocol(signal, protocol)]
    if endpoint is None or name not in _OTLP.values():
        return name, {}
    return name, {"endpoint": _build_endpoint(endpoint, signal, name)}


def _choose_protocol(signal: Signal, given: str | None) -> str:
    """Return the protocol for a signal; by default http/protobuf, as the specification advises (Python's SDK: grpc)."""
    of_signal = _read_variable(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
    chosen = given or of_signal or _read_variable("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if chosen not in _OTLP:
        raise SetupError(f"the OTLP protocol must be {' or '.join(_OTLP)}, not {chosen!r}")
    return chosen


def _build_endpoint(endpoint: str, signal: Signal, name: str) -> str:
    """Return the URL for one signal: OTLP over HTTP appends a path, gRPC has none."""
    parts = read_url("endpoint", endpoint)
    if name == _OTLP["grpc"]:
        return f"{parts.scheme}://{parts.netloc}"
    base = parts.path.rstrip("/").removesuffix("/v1/traces")  # some write the whole URL for traces
    return parts._replace(path=f"{base}/v1/{signal}").geturl()
