"""``python -m toolcall_pipeline`` is the command ``toolcall``."""

from toolcall_pipeline.cli import main  # absolute: a worker process imports this file under another name

if __name__ == "__main__":
    main()
