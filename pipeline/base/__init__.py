"""What every room reads: options, introspection, time, event loops and the names of the conventions."""
