"""What the pipeline costs, as ratios to a hand-written loop and to bare spans."""
