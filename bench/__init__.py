"""Benchmarks of size and speed: each figure beside a floor that was measured in the same run."""
