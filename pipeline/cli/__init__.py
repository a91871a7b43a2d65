"""The command ``toolcall``. To import it loads neither click nor rich nor the OpenTelemetry SDK."""

import sys

_EXTRAS = ("click", "opentelemetry", "rich")  # opentelemetry: its SDK and exporter; the API is always installed


def main() -> None:
    """Run the command. Exits with one line if a package that it needs is not installed."""
    try:
        from .commands import toolcall

        toolcall(prog_name="toolcall")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in _EXTRAS:
            raise
        sys.exit(f"toolcall needs {exc.name}, which is not installed: pip install 'toolcall-pipeline[cli,otel]'")
