"""Small changes of the source that the tests notice: ``python -m benchmarks.mutants``, or ``make mutants``."""
