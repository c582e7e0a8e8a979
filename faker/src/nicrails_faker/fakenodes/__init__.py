"""Nodes without a kubelet: what they advertise follows their topology."""
