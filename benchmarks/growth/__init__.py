"""Growth of the cost of a call, and of the memory that is kept, with stages, tools, arguments, calls and keys."""
