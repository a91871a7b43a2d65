"""``python -m pipeline`` is the command ``toolcall``."""

from pipeline.cli import main  # not relative: a worker process runs this file by itself

if __name__ == "__main__":
    main()
