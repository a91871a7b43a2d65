"""A file that keeps the report of each call: `Journal` writes it, and the commands of the guide read it.

README.md in this folder is the guide.
"""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
