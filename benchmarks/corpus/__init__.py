"""What becomes of recorded calls of real models: accepted, repaired or refused, and told well enough to recover."""
