"""The kubelet device plugin: advertises a Node's fake GPUs and slices, and follows their topology."""
