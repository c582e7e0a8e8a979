"""The shapes of the kinds that the embedded API serves.

Metadata and ConfigMaps are described to the last field. Of Nodes, pods and workloads the fields are described that a
selector, a merge key or a default needs; their other fields are kept as they came.

Source: k8s.io/api, core/v1 and apps/v1; k8s.io/apimachinery, meta/v1.
"""

from __future__ import annotations

from collections.abc import Mapping

from nicrails_faker.api.schema import (
    ANY,
    FLAG,
    FLAG_POINTER,
    INT32,
    INT32_POINTER,
    INT64,
    INT64_POINTER,
    MICRO_TIME,
    TEXT,
    TEXT_ALWAYS,
    TEXT_MAP,
    TIME,
    Binary,
    ListOf,
    Map,
    Struct,
    Type,
    atom,
    part,
    struct,
    texts,
)

OWNER_REFERENCE = Struct(
    name="OwnerReference",
    go="v1.OwnerReference",
    atomic=True,
    fields={
        **dict.fromkeys(("apiVersion", "kind", "name", "uid"), TEXT_ALWAYS),
        "controller": FLAG_POINTER,
        "blockOwnerDeletion": FLAG_POINTER,
    },
)
_MANAGED_FIELDS = struct(
    "ManagedFieldsEntry",
    texts("manager", "operation", "apiVersion", "fieldsType", "subresource"),
    time=TIME,
    fieldsV1=ANY,
)
OBJECT_META = struct(
    "ObjectMeta",
    texts("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
    generation=INT64,
    creationTimestamp=TIME,
    deletionTimestamp=TIME,
    deletionGracePeriodSeconds=INT64_POINTER,
    labels=TEXT_MAP,
    annotations=TEXT_MAP,
    ownerReferences=ListOf(item=OWNER_REFERENCE, keys=("uid",), merge_key="uid"),
    finalizers=ListOf(item=TEXT, is_set=True, merge_key="$value"),
    # An empty list and a list of one empty entry are kept: both mean "forget the managers".
    managedFields=ListOf(item=_MANAGED_FIELDS, keep_empty=True),
)


def kind(name: str, /, *groups: Mapping[str, Type], **fields: Type) -> Struct:
    """The shape of a kind: its own fields beside ``kind``, ``apiVersion`` and ``metadata``."""
    return struct(name, texts("kind", "apiVersion"), {"metadata": OBJECT_META}, *groups, fields)


CUSTOM = Struct(
    name="Unstructured",
    fields={"kind": TEXT, "apiVersion": TEXT, "metadata": OBJECT_META, "spec": ANY, "status": ANY},
    open=True,
)
"""The shape of a custom resource without a schema."""


def _by(name: str, key: str, /, **fields: Type) -> ListOf:
    """A list of structs that are told apart by one of their fields."""
    return ListOf(item=part(name, fields), keys=(key,), merge_key=key)


_REFERENCE = atom("ObjectReference", **texts("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion"))
_CONDITIONS = _by("Condition", "type", type=TEXT_ALWAYS, status=TEXT_ALWAYS)
_QUANTITIES = Map(value=ANY)
_CONTAINER = part(
    "Container",
    texts("image", "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"),
    name=TEXT_ALWAYS,
    env=_by("EnvVar", "name"),
    volumeMounts=_by("VolumeMount", "mountPath"),
    ports=ListOf(
        item=part("ContainerPort"),
        keys=("containerPort", "protocol"),
        defaults={"protocol": "TCP"},
        merge_key="containerPort",
    ),
    resources=part("ResourceRequirements", requests=_QUANTITIES, limits=_QUANTITIES),
)
POD_SPEC = part(
    "PodSpec",
    texts("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "serviceAccount", "dnsPolicy"),
    containers=ListOf(item=_CONTAINER, keys=("name",), merge_key="name", required=True),
    initContainers=ListOf(item=_CONTAINER, keys=("name",), merge_key="name"),
    ephemeralContainers=_by("EphemeralContainer", "name"),
    volumes=_by("Volume", "name"),
    imagePullSecrets=ListOf(item=atom("LocalObjectReference"), keys=("name",), merge_key="name"),
    nodeSelector=TEXT_MAP,
    hostNetwork=FLAG,
    terminationGracePeriodSeconds=INT64_POINTER,
    tolerations=ListOf(item=part("Toleration", texts("key", "operator", "value", "effect"))),
)
_CONTAINER_STATUSES = ListOf(item=part("ContainerStatus"))
POD = kind(
    "Pod",
    spec=POD_SPEC,
    status=part(
        "PodStatus",
        phase=TEXT,
        podIP=TEXT,
        conditions=_CONDITIONS,
        containerStatuses=_CONTAINER_STATUSES,
        initContainerStatuses=_CONTAINER_STATUSES,
        podIPs=_by("PodIP", "ip"),
    ),
)
NODE = kind(
    "Node",
    spec=part(
        "NodeSpec",
        podCIDR=TEXT,
        podCIDRs=ListOf(item=TEXT, is_set=True, merge_key="$value"),
        providerID=TEXT,
        unschedulable=FLAG,
        taints=ListOf(item=part("Taint", texts("key", "value", "effect"))),
    ),
    status=part(
        "NodeStatus",
        conditions=_CONDITIONS,
        addresses=_by("NodeAddress", "type"),
        capacity=_QUANTITIES,
        allocatable=_QUANTITIES,
        daemonEndpoints=part("NodeDaemonEndpoints", kubeletEndpoint=part("DaemonEndpoint", Port=INT32_POINTER)),
        nodeInfo=part("NodeSystemInfo"),
    ),
)
NAMESPACE = kind(
    "Namespace",
    spec=struct("NamespaceSpec", finalizers=ListOf(item=TEXT)),
    status=part("NamespaceStatus", phase=TEXT, conditions=_CONDITIONS),
)
CONFIG_MAP = kind("ConfigMap", immutable=FLAG_POINTER, data=TEXT_MAP, binaryData=Map(value=Binary()))
SERVICE_ACCOUNT = kind(
    "ServiceAccount",
    secrets=ListOf(item=_REFERENCE, keys=("name",), merge_key="name"),
    imagePullSecrets=ListOf(item=atom("LocalObjectReference")),
    automountServiceAccountToken=FLAG_POINTER,
)
EVENT = kind(
    "Event",
    texts("reason", "message", "type", "action"),
    involvedObject=_REFERENCE,
    source=part("EventSource"),
    firstTimestamp=TIME,
    lastTimestamp=TIME,
    count=INT32,
    eventTime=MICRO_TIME,
    series=ANY,
    related=ANY,
    reportingComponent=TEXT_ALWAYS,
    reportingInstance=TEXT_ALWAYS,
)
_SELECTOR = atom("LabelSelector", matchLabels=TEXT_MAP)
_TEMPLATE = struct("PodTemplateSpec", metadata=OBJECT_META, spec=POD_SPEC)
_STRATEGY = part("DeploymentStrategy", type=TEXT)
DEPLOYMENT = kind(
    "Deployment",
    spec=part("DeploymentSpec", replicas=INT32_POINTER, selector=_SELECTOR, template=_TEMPLATE, strategy=_STRATEGY),
    status=part("DeploymentStatus", conditions=_CONDITIONS, replicas=INT32, readyReplicas=INT32),
)
DAEMON_SET = kind(
    "DaemonSet",
    spec=part("DaemonSetSpec", selector=_SELECTOR, template=_TEMPLATE, updateStrategy=_STRATEGY),
    status=part("DaemonSetStatus", conditions=_CONDITIONS),
)
