"""``python -m pipeline`` is the command ``toolcall``."""

from .cli import main

if __name__ == "__main__":
    main()
