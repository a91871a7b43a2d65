"""How many small changes of the source the tests notice: ``python -m benchmarks.mutants``, or ``make mutants``."""
