"""Benchmarks: ``python -m madspace bench``. Nothing else in the package imports from here."""
