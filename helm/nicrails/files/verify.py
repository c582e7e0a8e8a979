# ruff: noqa: INP001  (Helm reads this file into a pod; it belongs to no package)
"""What ``helm test`` runs: looks at the records, the annotation and the admission policies with a broker's own token.

Nothing is changed: what a policy must deny is asked for as a dry run, or in a pod that does not exist.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

from nicrails import read_records
from nicrails.kube import (
    MERGE_PATCH,
    METADATA,
    ApiError,
    ExecError,
    ForbiddenError,
    InClusterAccess,
    KubeClient,
    NotFoundError,
    controller,
    core_path,
    exec_in_pod,
    is_observers,
    path,
)
from nicrails.text import excerpt

CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"
FOREIGN = "no-such-node.nicrails-verify"
MAX_NODES = 20
"""Nodes whose UID is compared with their record's."""


class FailedError(Exception):
    """Something is not as it should be; the sentence is for the one who installs."""


async def verify(client: KubeClient, environ: Mapping[str, str]) -> list[str]:
    """Check everything that the environment names; returns what was found good, a line each.

    Raises:
        FailedError: Something is not good.
        ApiError: The API server did not answer as expected.
    """
    namespace, node = environ["POD_NAMESPACE"], environ["NODE_NAME"]
    deadline = time.monotonic() + float(environ.get("TIME_LIMIT", "120"))
    found = []
    if name := environ.get("CONFIG_MAP"):
        data = await until(deadline, lambda: records(client, namespace, name, environ["OBSERVER"]))
        found.append(f"ConfigMap {name}: {len(data)} records can be read, of Nodes that exist: {shown(data)}")
        if policy := environ.get("RECORD_POLICY"):
            await own_and_foreign_key(client, core_path(namespace, "configmaps", name), node, policy, data.get(node))
            found.append(f"policy {policy}: a key of another Node is denied, the own key is not")
    if annotation := environ.get("ANNOTATION"):
        value = await until(deadline, lambda: annotated(client, node, annotation))
        found.append(f"Node {node}: {annotation} is {value}")
        if policy := environ.get("NODE_POLICY"):
            await denied("labelling its Node", policy, dry_run(client, path("api", "v1", "nodes", node), LABELLED))
            found.append(f"policy {policy}: a change of the Node beside the annotation is denied")
    if policy := environ.get("EXEC_POLICY"):
        operator, daemon_set = environ["GPU_OPERATOR"].split("/")
        command = exec_in_pod(
            client,
            namespace=operator,
            pod=f"{daemon_set}-00000",
            container="nicrails-verify",
            command=["true"],
            time_limit=30,
            max_output=1024,
        )
        await denied("running another command", policy, command)
        found.append(f"policy {policy}: another command than the two is denied")
    return found


LABELLED = {"metadata": {"labels": {"nicrails-verify": "denied"}}}


async def until(deadline: float, look: Any) -> Any:  # noqa: ANN401  (whatever the look returns)
    """Look again each second until nothing fails or the time is over."""
    while True:
        try:
            return await look()
        except FailedError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(1)


async def records(client: KubeClient, namespace: str, name: str, observer: str) -> dict[str, str]:
    """The records, if the ConfigMap is the observer's and all of them can be read and are of Nodes that exist."""
    try:
        found = (await client.request("GET", core_path(namespace, "configmaps", name))).object()
    except NotFoundError as error:
        raise FailedError(
            f"ConfigMap {name} does not exist; the observer makes it: see its log and /healthz"
        ) from error
    owner = controller(found["metadata"])
    if not is_observers(owner, observer):
        raise FailedError(f"ConfigMap {name} is controlled by {owner or 'nobody'}, not by Deployment {observer}")
    data = found.get("data") or {}
    if not data:
        raise FailedError(
            f"ConfigMap {name} has no record; see the brokers' /healthz, or no interface with an LLDP neighbour matches "
            "nodeMetadata.plugins.gpuNicRailMapping.railSource.hostLLDP.interfaceRegex"
        )
    decoded = read_records(data)
    for node, why in sorted(decoded.unreadable.items()):
        raise FailedError(f"the record of Node {excerpt(node, 80)} can not be read: {excerpt(str(why))}")
    for node, record in sorted(decoded.items())[:MAX_NODES]:
        try:
            answer = await client.request("GET", path("api", "v1", "nodes", node), accept=METADATA)
        except NotFoundError as error:
            raise FailedError(f"there is a record of Node {node}, which does not exist") from error
        if answer.object()["metadata"]["uid"] != record.node_uid:
            raise FailedError(f"the record of Node {node} is of a former Node of that name")
    return dict(data)


async def annotated(client: KubeClient, node: str, annotation: str) -> str:
    """The Node's annotation."""
    answer = await client.request("GET", path("api", "v1", "nodes", node), accept=METADATA)
    value = (answer.object()["metadata"].get("annotations") or {}).get(annotation)
    if not value:
        raise FailedError(f"Node {node} has no annotation {annotation}; see the /healthz of its broker")
    return excerpt(str(value))


async def own_and_foreign_key(client: KubeClient, config_map: str, node: str, policy: str, own: str | None) -> None:
    """Both answers of the policy: it denies what it should, and nothing else."""
    await denied("changing a key of another Node", policy, dry_run(client, config_map, {"data": {FOREIGN: "{}"}}))
    try:
        await dry_run(client, config_map, {"data": {node: own}})
    except ForbiddenError as error:
        raise FailedError(
            f"the key of Node {node} can not be changed by the token of its own broker: {error}"
        ) from error


async def dry_run(client: KubeClient, target: str, patch: Mapping[str, Any]) -> None:
    """A merge patch that changes nothing."""
    await client.request(
        "PATCH", target, query={"dryRun": "All"}, body=patch, content_type=MERGE_PATCH, accept=METADATA
    )


async def denied(doing: str, policy: str, asked: Awaitable[Any]) -> None:
    """Whether this policy denies it; any other outcome means that it does not work."""
    try:
        await asked
        outcome = "it was allowed"
    except ForbiddenError as error:
        if policy in error.message:
            return
        outcome = str(error)
    except (ApiError, ExecError) as error:
        outcome = str(error)
    raise FailedError(f"ValidatingAdmissionPolicy {policy} does not deny a broker's token {doing}: {outcome}")


def shown(names: Mapping[str, Any]) -> str:
    """The first few names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(sorted(names)[:5]) + more


async def main() -> int:
    """Verify with the pod's account; the exit status."""
    access = InClusterAccess(directory=Path(os.environ.get("CREDENTIALS", CREDENTIALS)))
    async with KubeClient(access, user_agent="nicrails-verify") as client:
        try:
            found = await verify(client, os.environ)
        except (FailedError, ApiError) as error:
            sys.stderr.write(f"FAILED: {error}\n")
            return 1
    sys.stdout.writelines(f"good: {line}\n" for line in found)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
