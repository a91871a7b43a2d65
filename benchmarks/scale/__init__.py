"""The pipeline under load and beside real backends: soak, a million calls, exporters, Phoenix, Ray."""
