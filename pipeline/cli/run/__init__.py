"""``toolcall run``: a file of calls in, a file of results out."""
