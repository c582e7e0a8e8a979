"""Reads that tell "it does not exist" from "something answered 404"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicrails.kube import JSON, KubeClient, NotFoundError, UnreachableError


async def get_or_none(client: KubeClient, path: str, *, accept: str = JSON) -> dict[str, Any] | None:
    """An object, or None if the API server says that it does not exist.

    Raises:
        ApiError: It could not be read. A 404 that is not the API server's own is one of these: proxies say 404 for
            reasons of their own, and here absence removes records.
    """
    try:
        answer = await client.request("GET", path, accept=accept)
    except NotFoundError as error:
        if error.reason != "NotFound":
            raise UnreachableError(error.request, f"a 404 that is not the API server's: {error.message}") from error
        return None
    document = answer.object()
    metadata_of(document, answer.request)
    return document


def metadata_of(document: Mapping[str, Any], request: str) -> Mapping[str, Any]:
    """The metadata of an object, which has a name and a UID.

    Raises:
        UnreachableError: It has none, so this is not the answer of an API server.
    """
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not all(
        isinstance(metadata.get(key), str) and metadata[key] for key in ("name", "uid")
    ):
        raise UnreachableError(request, "the answer is an object without name or UID")
    return metadata
