"""The arguments of a call: schema, parsing, problems, repairs, suggestions and examples."""
