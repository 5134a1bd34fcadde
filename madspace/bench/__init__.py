"""Benchmarks: ``python -m madspace bench``. Only the command line imports from here."""
