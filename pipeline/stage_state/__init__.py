"""State that stages and executors keep between calls. Each imports the module that it needs."""
