"""How the cost of a call, and the memory of what is kept, grow with stages, tools, arguments, calls and keys."""
