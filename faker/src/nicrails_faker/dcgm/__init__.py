"""Metrics of fake GPUs and slices under DCGM's names, and who holds them."""
