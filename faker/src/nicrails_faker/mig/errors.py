"""Why something about MIG was refused."""

from __future__ import annotations

MAX_PATH = 200
"""Characters of a path that a message shows: its end says most."""


class MigError(ValueError):
    """A refusal: one sentence that says what was refused, why, and what to do."""


class DocumentError(MigError):
    """A YAML document is not what it has to be.

    Attributes:
        path: Where in the document, such as ``mig-configs.selected[0].devices``; "" is the whole of it.
    """

    def __init__(self, path: str, problem: str) -> None:
        shown = path if len(path) <= MAX_PATH else f"…{path[1 - MAX_PATH :]}"
        super().__init__(f"{shown}: {problem}" if path else problem)
        self.path = path


class ProductError(MigError):
    """A GPU product is unknown, or is known not to have MIG."""


class GeometryError(MigError):
    """No GPU of the product can be cut like that."""


class PlanError(MigError):
    """A request cannot be met on a node; its topology stays as it is."""
