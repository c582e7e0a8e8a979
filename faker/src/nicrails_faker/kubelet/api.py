"""The methods of the kubelet's APIs.

Source: ``protos``, and https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

from nicrails_faker.kubelet.generated import deviceplugin_pb2 as plugin
from nicrails_faker.kubelet.generated import podresources_pb2 as resources
from nicrails_faker.kubelet.rpc import Method

VERSION = "v1beta1"
HEALTHY = "Healthy"
KUBELET_SOCKET = "kubelet.sock"
MAX_DEVICE_ID = 63
"""Characters of a device's ID."""

REGISTRATION = "v1beta1.Registration"
REGISTER = Method(service=REGISTRATION, name="Register", request=plugin.RegisterRequest, answer=plugin.Empty)

DEVICE_PLUGIN = "v1beta1.DevicePlugin"
OPTIONS = Method(
    service=DEVICE_PLUGIN, name="GetDevicePluginOptions", request=plugin.Empty, answer=plugin.DevicePluginOptions
)
LIST_AND_WATCH = Method(
    service=DEVICE_PLUGIN, name="ListAndWatch", request=plugin.Empty, answer=plugin.ListAndWatchResponse
)
PREFERRED_ALLOCATION = Method(
    service=DEVICE_PLUGIN,
    name="GetPreferredAllocation",
    request=plugin.PreferredAllocationRequest,
    answer=plugin.PreferredAllocationResponse,
)
ALLOCATE = Method(
    service=DEVICE_PLUGIN, name="Allocate", request=plugin.AllocateRequest, answer=plugin.AllocateResponse
)
PRE_START = Method(
    service=DEVICE_PLUGIN,
    name="PreStartContainer",
    request=plugin.PreStartContainerRequest,
    answer=plugin.PreStartContainerResponse,
)

POD_RESOURCES = "v1.PodResourcesLister"
LIST = Method(
    service=POD_RESOURCES,
    name="List",
    request=resources.ListPodResourcesRequest,
    answer=resources.ListPodResourcesResponse,
)
