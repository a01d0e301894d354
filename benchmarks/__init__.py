"""Measurements of gla and whatever peers are installed: `python -m benchmarks --help`."""
