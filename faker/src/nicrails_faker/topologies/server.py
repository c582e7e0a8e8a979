"""The topology server: the topologies as JSON, under the names of the fields in fake-gpu-operator's Go types."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from nicrails.kube import ApiError
from nicrails_faker.mig import ClusterTopology, DocumentError, Gpu, MigInstance, NodeTopology, OtherDevice, spec_of
from nicrails_faker.mig import Status as GpuStatus
from nicrails_faker.mig.document import YamlList, YamlMapping, YamlValue, as_boolean, as_whole, is_null
from nicrails_faker.reporting import explain
from nicrails_faker.topologies.cluster import ClusterDocument
from nicrails_faker.topologies.config_maps import TopologyError
from nicrails_faker.topologies.store import TopologyStore


def routes(store: TopologyStore, cluster: ClusterDocument) -> list[web.RouteDef]:
    """``GET /topology`` and ``GET /topology/nodes/<node>``.

    Args:
        store: Read anew for each question about a Node.
        cluster: The cluster's document as it was last seen.
    """

    async def whole(_: web.Request) -> web.Response:
        if cluster.topology is None:
            return _sentence(503, cluster.fault)
        try:
            return _json(cluster_document(cluster.topology, cluster))
        except DocumentError as error:
            return _sentence(503, str(error))

    async def one(request: web.Request) -> web.Response:
        node = request.match_info["node"]
        try:
            found = await store.read(node)
        except TopologyError as error:
            # A name that can be no Node's is asked for by people; an unreadable document is ours.
            return _sentence(503 if _is_name(store, node) else 404, str(error))
        except ApiError as error:
            return _sentence(502, explain(error))
        if found is None:
            return _sentence(404, f"Node {node} has no topology: ConfigMap {store.name_of(node)} does not exist")
        return _json(node_document(found.topology))

    return [web.get("/topology", whole), web.get("/topology/nodes/{node}", one)]


def cluster_document(topology: ClusterTopology, cluster: ClusterDocument) -> dict[str, Any]:
    """The cluster's topology as JSON; what a pool takes from a GPU profile is shown as if it stood there.

    Raises:
        DocumentError: A profile is missing or wrong.
    """
    pools = {name: spec_of(pool, cluster.profiles) for name, pool in topology.pools.items()}
    return {
        "NodePools": {
            name: {
                "GpuCount": spec.gpu_count,
                "GpuMemory": spec.gpu_memory,
                "GpuProduct": spec.gpu_product,
                "OtherDevices": [_other(device) for device in spec.other_devices],
            }
            for name, spec in pools.items()
        },
        "NodePoolLabelKey": topology.pool_label,
        "MigStrategy": topology.mig_strategy,
    }


def node_document(topology: NodeTopology) -> dict[str, Any]:
    """A Node's topology as JSON."""
    return {
        "GpuMemory": topology.gpu_memory,
        "GpuProduct": topology.gpu_product,
        "DriverVersion": topology.driver_version,
        "CudaVersion": topology.cuda_version,
        "Gpus": [_gpu(gpu) for gpu in topology.gpus],
        "MigStrategy": topology.mig_strategy,
        "OtherDevices": [_other(device) for device in topology.other_devices],
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "ID": gpu.id,
        "Status": _status(gpu.status),
        "MigEnabled": gpu.mig_enabled,
        "MigInstances": [_instance(one) for one in gpu.mig_instances],
    }


def _instance(one: MigInstance) -> dict[str, Any]:
    return {"Profile": one.profile, "Index": one.index, "UUID": one.uuid, "Status": _status(one.status)}


def _status(status: GpuStatus) -> dict[str, Any]:
    holder = status.allocated_by
    usage = {key.text: _plain(value) for key, value in status.pod_usage.entries}
    return {
        "AllocatedBy": {"Namespace": holder.namespace, "Pod": holder.pod, "Container": holder.container},
        "PodGpuUsageStatus": usage,
    }


def _other(device: OtherDevice) -> dict[str, Any]:
    return {"Name": device.name, "Count": device.count}


def _plain(value: YamlValue) -> Any:  # noqa: ANN401  (JSON is any of its types)
    """JSON of a part of the document that is only known by its YAML keys; Go's fields begin with a capital."""
    if isinstance(value, YamlMapping):
        return {key.text[:1].upper() + key.text[1:]: _plain(inner) for key, inner in value.entries}
    if isinstance(value, YamlList):
        return [_plain(item) for item in value.items]
    if is_null(value):
        return None
    boolean, whole = as_boolean(value), as_whole(value)
    return boolean if boolean is not None else whole if whole is not None else value.text


def _is_name(store: TopologyStore, node: str) -> bool:
    try:
        store.name_of(node)
    except TopologyError:
        return False
    return True


def _json(document: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE), content_type="application/json")


def _sentence(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
