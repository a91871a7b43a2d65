"""The cost and the result of a tool call, in this pipeline and in the agent frameworks beside it."""
