"""Privacy: which texts a model may see, how text is escaped for logs and terminals, and how secrets are redacted.

README.md in this folder is the guide.
"""

from ..base import lazy_names

__getattr__, __dir__, __all__ = lazy_names.attach(__name__, __file__)
