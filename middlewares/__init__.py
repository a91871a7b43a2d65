"""The stages, one file each, named after them.

Each is imported when it is first used.
"""

if __name__ == "middlewares":
    raise ImportError(
        "import toolcall_pipeline.middlewares: middlewares is only the folder of its source", name=__name__
    )

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
