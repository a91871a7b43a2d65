"""The command ``toolcall``; what it needs beyond the library is imported when it runs."""

import sys

_EXTRAS = ("click", "opentelemetry", "rich")  # of OpenTelemetry the SDK and the exporter: the API is always there


def main() -> None:
    """Run the command. Without the extras that it needs it says in one line how to get them."""
    try:
        from .commands import toolcall

        toolcall(prog_name="toolcall")
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in _EXTRAS:
            raise
        sys.exit(f"toolcall needs {exc.name}, which is not installed: pip install 'toolcall-pipeline[cli,otel]'")
