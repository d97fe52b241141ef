"""A session's executions as a Jupyter notebook."""

from __future__ import annotations

from kernel_gateway.identity.principal import Principal


class Notebooks:
    """Built from the rows, whether the session lives or not."""

    async def notebook(self, principal: Principal, session_id: str) -> bytes:
        """The `.ipynb`, UTF-8 JSON, nbformat 4.5."""
        raise NotImplementedError
