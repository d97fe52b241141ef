"""The kernel for JavaScript and TypeScript: Deno's."""

from __future__ import annotations

from ..options import Options
from .bridged import BridgedKernel


class DenoKernel(BridgedKernel):
    """Counts its own generations."""

    name = "deno"
    heeds_signals = False
    file_prefix = "deno"

    def _prepare(self, generation: int, key: str) -> list[str]:
        file = self.write_connection(generation, key, "deno")
        return [self._options.deno, "jupyter", "--kernel", "--conn", file]

    def _make_environment(self) -> dict[str, str]:
        return {**super()._make_environment(), **_variables(self._options)}


def _variables(options: Options) -> dict[str, str]:
    """No colours in what is shown, no question whether there is a newer Deno, and the image's authorities as well."""
    return {
        "NO_COLOR": "1",
        "DENO_NO_UPDATE_CHECK": "1",
        "DENO_DIR": f"{options.home}/.cache/deno",
        "DENO_TLS_CA_STORE": "system,mozilla",
    }
