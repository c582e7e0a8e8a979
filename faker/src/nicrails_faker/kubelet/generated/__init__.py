"""Made by scripts/kubelet-stubs; not to be edited."""
