"""Runs nicrails without a GPU: an embedded Kubernetes API, simulated machines, and a demonstration on both."""
