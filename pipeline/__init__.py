"""A middleware pipeline for the tool calls that language models make. Each name is imported when it is first used."""

if __name__ == "pipeline":
    raise ImportError("import toolcall_pipeline: pipeline is only the folder of its source", name=__name__)

from .base import lazy_names, semconv

__version__ = semconv.VERSION
__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
