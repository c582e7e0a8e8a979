"""A container image of one program, as an archive that containerd imports."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def write_image(name: str, program: Path, archive: Path) -> None:
    """Write an image that runs a static program, as an OCI layout.

    Args:
        name: With its tag, such as ``localhost/pause:1``.
        program: The program.
        archive: The file to write.

    Source: the OCI Image Layout and Image Format specifications.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, program.name, program.read_bytes(), 0o755)
    blobs: dict[str, bytes] = {}
    filesystem = _blob(blobs, layer.getvalue(), "layer.v1.tar")
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"]},
        "rootfs": {"type": "layers", "diff_ids": [filesystem["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, json.dumps(configuration).encode(), "config.v1+json"),
        "layers": [filesystem],
    }
    reference = _blob(blobs, json.dumps(manifest).encode(), "manifest.v1+json")
    reference["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [reference]}).encode())
        for digest, data in blobs.items():
            _add(tar, f"blobs/sha256/{digest}", data)


def _blob(blobs: dict[str, bytes], data: bytes, media_type: str) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {
        "mediaType": f"application/vnd.oci.image.{media_type}",
        "digest": f"sha256:{digest}",
        "size": len(data),
    }


def _add(tar: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
