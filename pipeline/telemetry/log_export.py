"""The part of `configure` that exports records of `logging`. It needs the OpenTelemetry SDK.

It takes the place of OpenTelemetry's own handlers: the handler of the SDK is deprecated, its successor is another
package, and both omit version and schema and repeat the ids as attributes. OpenTelemetry for Python keeps its logs API
under ``_logs`` until it is declared stable; it has no other name.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from time import time_ns
from typing import Any, cast

from opentelemetry._logs import LogRecord, SeverityNumber, get_logger_provider, set_logger_provider
from opentelemetry.context import get_current
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import get_current_span

from ..base import semconv
from ..base.setup_error import SetupError
from ..privacy import make_safe
from .logs import is_first_of_bug

_SPAN_IDS = frozenset(("trace_id", "span_id"))  # fields for formatters; an exported record has them from its context
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"} | _SPAN_IDS
_SEVERITY_TEXTS = {"WARNING": "WARN", "CRITICAL": "FATAL"}  # as in the data model of OpenTelemetry
_SDK = "opentelemetry"  # the logger of the exporters and of the SDK


class ExportHandler(logging.Handler):
    """Passes the records of `logging` to a logger provider, with the ids of the current span.

    Records of the exporters and of the SDK are not exported: each export would cause the next one. If several handlers
    get a record, only one exports it: the handler whose tracer provider made the current span, else the oldest. Two
    `configure` calls in one process are two applications, or two parts of one.

    Args:
        provider: Where records go.
        tracer_provider: Makes the spans of the same application.
    """

    _made = count()

    def __init__(self, provider: LoggerProvider, tracer_provider: TracerProvider) -> None:
        super().__init__()
        self._provider, self._tracer_provider = provider, tracer_provider
        self.number = next(self._made)

    def made(self, span: object) -> bool:
        """Whether the span belongs to the same application. Each application has its own resource object."""
        return getattr(span, "resource", None) is self._tracer_provider.resource

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record to the provider. Where nothing else reads the log, stderr has what it had without this."""
        if _find_exporting(record.name) is not self:
            return
        if not _is_of_an_exporter(record):
            self._export(record)
        if not _has_readers(record.name) and (not hasattr(record, semconv.ERROR_TYPE) or is_first_of_bug(record)):
            _show(record)

    def _export(self, record: logging.LogRecord) -> None:
        ours = record.name.partition(".")[0] == semconv.SCOPE
        version, schema = (semconv.VERSION, semconv.SCHEMA_URL) if ours else (None, None)
        try:
            self._provider.get_logger(record.name, version, schema).emit(_translate(record))
        except Exception:  # noqa: BLE001  # a record processor, or a value in the record, may raise anything
            self.handleError(record)


class LogExport:
    """The provider of logs, and the handler that feeds it. It is flushed and shut down like the other providers.

    Args:
        tracer_provider: Makes the spans; its resource describes this process.
        exporters: Where the records go, in batches (``OTEL_BLRP_*``).
        loggers: Names of loggers. A logger below another one in the list gets no handler of its own. "": the root.
    """

    def __init__(
        self, tracer_provider: TracerProvider, exporters: Iterable[LogRecordExporter], loggers: Iterable[str]
    ) -> None:
        self.provider = LoggerProvider(tracer_provider.resource, shutdown_on_exit=False)
        for exporter in exporters:
            self.provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        self._handler = ExportHandler(self.provider, tracer_provider)
        names = set(loggers)
        self._loggers = [logging.getLogger(name) for name in sorted(names) if not names & set(_list_parents(name))]
        for logger in self._loggers:
            logger.addHandler(self._handler)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send waiting records."""
        return self.provider.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Remove the handler from the loggers, and send waiting records."""
        for logger in self._loggers:
            logger.removeHandler(self._handler)
        self.provider.shutdown()


def _list_handlers(name: str) -> Iterator[logging.Handler]:
    """Yield the handlers that get the records of a logger."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from list(logger.handlers)
        logger = logger.parent if logger.propagate else None


def _has_readers(name: str) -> bool:
    """Whether the records of a logger reach a handler that does not export them."""
    return any(not isinstance(handler, ExportHandler) for handler in _list_handlers(name))


def _find_exporting(name: str) -> ExportHandler | None:
    """Return the handler that exports a record made now by the logger of that name, or None."""
    handlers = [handler for handler in _list_handlers(name) if isinstance(handler, ExportHandler)]
    if len(handlers) > 1:
        span = get_current_span()
        handlers.sort(key=lambda handler: (not handler.made(span), handler.number))
    return handlers[0] if handlers else None


def refuse_second_logger_provider() -> None:
    """Raise SetupError if a global logger provider is set already: OpenTelemetry does not let it be replaced."""
    current = type(get_logger_provider())
    if not current.__module__.startswith("opentelemetry._logs"):  # the API's own is a placeholder
        raise SetupError(
            f"a logger provider is already set ({current.__module__}.{current.__qualname__}), and OpenTelemetry does "
            'not let it be replaced: to keep it, call configure(logs="none")'
        )


def set_global_logger_provider(provider: LoggerProvider) -> None:
    """Make it the global provider. No other module imports what is not stable yet, as `test_layers` checks."""
    set_logger_provider(provider)


def _show(record: logging.LogRecord) -> None:
    """Write a record to stderr, as Python does for a record without a handler."""
    if logging.lastResort is not None and record.levelno >= logging.lastResort.level:
        logging.lastResort.handle(record)


def _list_parents(name: str) -> list[str]:
    """Return the names of the loggers above this one, including the root's."""
    parts = name.split(".") if name else []
    return [".".join(parts[:length]) for length in range(len(parts))]


def _is_of_an_exporter(record: logging.LogRecord) -> bool:
    """Whether an exporter made the record, or a library that it uses, such as an HTTP client.

    While it exports, the SDK sets a context key whose name ends in random digits.
    """
    if record.name.partition(".")[0] == _SDK:
        return True
    return any(key.startswith(semconv.SUPPRESS) and value for key, value in get_current().items())


def _translate(record: logging.LogRecord) -> LogRecord:
    return LogRecord(
        timestamp=int(record.created * 1e9),
        observed_timestamp=time_ns(),
        context=get_current(),
        severity_text=_SEVERITY_TEXTS.get(record.levelname, record.levelname),
        severity_number=_find_severity(record.levelno),
        body=_to_wire(record.getMessage()),
        attributes=_list_attributes(record),
    )


def _find_severity(level: int) -> SeverityNumber:
    """Return the severity of a level, as OpenTelemetry's own handler maps it.

    Level 10 is DEBUG, and each step of Python is a step of OpenTelemetry, up to the next level.
    """
    if level < logging.DEBUG:
        return SeverityNumber.UNSPECIFIED
    tens, ones = divmod(min(level, logging.CRITICAL + 3), 10)
    return SeverityNumber(SeverityNumber.DEBUG.value + 4 * (tens - 1) + min(ones, 3))


def _list_attributes(record: logging.LogRecord) -> dict[str, Any]:
    """Return the extra fields of a record, and its exception under the names of the conventions."""
    found: dict[str, Any] = {key: value for key, value in vars(record).items() if key not in _RECORD_FIELDS}
    if record.exc_info and record.exc_info[1] is not None:
        exc = make_safe(record.exc_info[1])
        found[semconv.EXCEPTION_TYPE] = type(exc).__name__
        found[semconv.EXCEPTION_MESSAGE] = str(exc)
        found[semconv.EXCEPTION_STACKTRACE] = "".join(traceback.format_exception(exc))
    return {key: _to_wire(value) for key, value in found.items()}


def _to_wire(value: object) -> Any:
    """Return the value as OTLP can carry it. A lone surrogate would lose the whole batch."""
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _to_wire(each) for key, each in cast("Mapping[Any, object]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_wire(each) for each in cast("Sequence[object]", value)]
    return str(value).encode(errors="replace").decode()
