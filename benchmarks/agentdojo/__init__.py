"""AgentDojo's own tools, and recorded calls of them, through our pipeline and through AgentDojo's runtime."""
