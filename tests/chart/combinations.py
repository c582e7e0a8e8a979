"""Values that a cluster owner could have, by name; every one must render, be accepted and configure both programs."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chart.helm import Json, at, merged

MAPPING = "nodeMetadata.plugins.gpuNicRailMapping"

RECORDS: Json = at(
    MAPPING,
    {
        "enabled": True,
        "configMapName": "topograph-nic-rails",
        "railSource": {
            "name": "host-lldp",
            "hostLLDP": {"interfaceRegex": "^eth_r([0-9]+)_p[0-9]+$", "railID": "rail$1"},
        },
        "gpuSource": {"gpuOperatorNamespace": "gpu-operator", "daemonSet": "nvidia-device-plugin-daemonset"},
    },
)
"""The settings of the documentation."""

ANNOTATIONS: Json = at("nodeMetadata.provider.name", "lldp")
POLICIES: Json = at("admissionPolicies.enabled", value=True)
NO_GPU_SOURCE: Json = at(f"{MAPPING}.gpuSource", None)

EVERYTHING: Json = merged(
    RECORDS,
    ANNOTATIONS,
    POLICIES,
    {
        "commonLabels": {"team": "fabric"},
        "imagePullSecrets": [{"name": "registry"}],
        "broker": {
            "lldpdGroup": 105,
            "seLinuxOptions": {"type": "spc_t"},
            "priorityClassName": "system-node-critical",
            "podLabels": {"a": "b"},
            "podAnnotations": {"c": "d"},
            "image": {"repository": "registry.example:5000/fabric/nicrails-broker", "digest": "sha256:" + "0" * 64},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
                        ]
                    }
                }
            },
        },
        "observer": {
            "replicas": 2,
            "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "system-cluster-critical",
            "image": {"tag": "1.2.3", "pullPolicy": "Always"},
        },
        "metrics": {
            "annotations": {"enabled": True},
            "podMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        },
        "networkPolicy": {
            "enabled": True,
            "ingress": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
            "egress": {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]},
        },
        "stormControl": {"enabled": True},
    },
)

FAKER: Json = at("faker.enabled", value=True)
RESTART_MODE: Json = at("faker.mig.onChange", "restart")
FAKE_NODES: Json = at("faker.fakeNodes.enabled", value=True)
MINIMAL: Json = {"faker": {"mig": {"enabled": False}, "metrics": {"enabled": False}}}

FAKERS: Mapping[str, Json] = {
    "faker": merged(RECORDS, FAKER),
    "faker-restart-mode": merged(RECORDS, FAKER, RESTART_MODE),
    "faker-with-fake-nodes": merged(RECORDS, FAKER, FAKE_NODES),
    "faker-minimal": merged(FAKER, MINIMAL),
    "faker-with-other-names": merged(
        at(f"{MAPPING}.gpuSource", {"gpuOperatorNamespace": "no", "daemonSet": "0x1", "container": "null"}),
        FAKER,
        FAKE_NODES,
        {
            "fullnameOverride": "on",
            "nameOverride": "off",
            "commonLabels": {"yes": "true"},
            "faker": {
                "topology": {"name": "123", "nodePoolLabelKey": "on", "nodePools": {"no": {"gpuCount": 1}}},
                "devicePlugin": {"hostDirectory": "/var/lib/fakes #1"},
                "fakeNodes": {"label": "y=1"},
            },
        },
    ),
    "faker-and-everything": merged(
        EVERYTHING,
        FAKER,
        RESTART_MODE,
        FAKE_NODES,
        {
            "faker": {
                "image": {"repository": "registry.example:5000/fabric/nicrails-faker", "digest": "sha256:" + "1" * 64},
                "devicePlugin": {"strict": True},
                "resources": None,
                "tolerations": [{"operator": "Exists"}],
            }
        },
    ),
}
"""Those with the faker."""

COMBINATIONS: Mapping[str, Json] = {
    "nothing": {},
    "records": RECORDS,
    "records-without-gpu-source": merged(RECORDS, NO_GPU_SOURCE),
    "records-without-gpu-nodes": merged(RECORDS, at(f"{MAPPING}.gpuSource.gpuNode", "never")),
    "records-and-annotations": merged(RECORDS, ANNOTATIONS),
    "annotations-alone": ANNOTATIONS,
    "annotations-with-policies": merged(ANNOTATIONS, POLICIES),
    "policies-without-gpu-source": merged(RECORDS, NO_GPU_SOURCE, POLICIES),
    "lldpd-group": merged(RECORDS, at("broker.lldpdGroup", 105)),
    "lldpd-socket-of-debian": merged(
        RECORDS,
        {
            "broker": {"lldpdGroup": 105, "hostPaths": {"lldpd": "/run"}},
            "host": {"lldpdSocket": "/host/run/lldpd.socket"},
        },
    ),
    "other-names": merged(
        RECORDS,
        at(
            MAPPING,
            {
                "configMapName": "rails.of.site-7",
                "observerDeployment": "rail-keeper",
                "gpuSource": {
                    "gpuOperatorNamespace": "nvidia",
                    "daemonSet": "a-device-plugin.v2",
                    "container": "plugin",
                    "gpuNode": "always",
                },
            },
        ),
        {"nameOverride": "rails", "fullnameOverride": "site-7"},
    ),
    "names-that-yaml-takes-for-something-else": merged(
        RECORDS,
        POLICIES,
        at(
            MAPPING,
            {
                "configMapName": "1234",
                "observerDeployment": "123",
                "gpuSource": {"gpuOperatorNamespace": "no", "daemonSet": "0x1", "container": "null"},
            },
        ),
        {
            "fullnameOverride": "on",
            "nameOverride": "off",
            "commonLabels": {"yes": "true"},
            "broker": {"priorityClassName": "1"},
            "metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
            "networkPolicy": {"enabled": True},
            "stormControl": {"enabled": True},
        },
    ),
    "intervals": merged(
        RECORDS,
        at(
            MAPPING,
            {
                "refreshInterval": 0,
                "startJitter": "2m30s",
                "verifyInterval": "1m",
                "railSource": {"hostLLDP": {"timeout": 2.5}},
            },
        ),
        {
            "observer": {
                "checkInterval": "45s",
                "fullInterval": "1h",
                "batchSize": 1000,
                "brake": {"fraction": 1, "minimum": 0},
            },
            "server": {"address": "::", "port": 9900},
            "logging": {"level": "debug"},
        },
    ),
    "regular-expressions": merged(
        RECORDS,
        at(
            f"{MAPPING}.railSource.hostLLDP",
            {
                "interfaceRegex": "^(?P<kind>en|eth)[^'\"]*_r(?P<rail>\\d+)\\\\?(?:_p\\d)?$",
                "railID": "${kind}: $$ ${rail} #x",
            },
        ),
    ),
    "no-limits": merged(
        RECORDS,
        {
            "broker": {"resources": None, "tolerations": [{"operator": "Exists"}]},
            "observer": {"resources": {"limits": None}},
        },
    ),
    "metrics": merged(
        RECORDS, {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True, "interval": "1m"}}}
    ),
    "one-and-no-replica": merged(RECORDS, at("observer.replicas", 0)),
    "storm-control": merged(RECORDS, at("stormControl", {"enabled": True, "matchingPrecedence": 700})),
    "network-policy": merged(RECORDS, at("networkPolicy", {"enabled": True, "egress": {"ports": [6443]}})),
    "everything": EVERYTHING,
    **FAKERS,
}
