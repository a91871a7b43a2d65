"""The cost of the pipeline, as ratios to a hand-written loop and to bare spans."""
