"""The observer: one per cluster, it owns the shared ConfigMap and removes records of Nodes that are gone or replaced."""
