"""The kubelet's APIs for device plugins and about the devices that pods hold, on sockets of the Node.

The messages are generated from ``protos``; :mod:`nicrails_faker.kubelet.api` has the methods with their types.
"""

from __future__ import annotations

import nicrails_faker.kubelet.quiet  # noqa: F401  (before the others import gRPC)
from nicrails_faker.kubelet.errors import KubeletError
from nicrails_faker.kubelet.pod_resources import Held, PodResources
from nicrails_faker.kubelet.registration import register

__all__ = ["Held", "KubeletError", "PodResources", "register"]
