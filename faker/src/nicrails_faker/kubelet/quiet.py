"""Keeps gRPC's core quiet: it writes lines of its own to standard error, among our JSON. Imported before gRPC."""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
