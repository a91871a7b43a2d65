"""The fate of the same mistakes in an agent framework, without and with the pipeline around its tools."""
