"""What a tool call costs, and what becomes of it, in this pipeline and in the agent frameworks beside it."""
