"""The service: who may do what, what is remembered, and every protocol at the door."""

import sys


def _import_without_rich() -> None:
    """Import structlog without rich, and let httpx come without its command: a tenth of the service's start.

    structlog would have it for tracebacks that show variables, secrets among them; ours are plain (`logs`).
    """
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog.dev  # noqa: F401, PLC0415
    finally:
        del sys.modules["rich"]


_import_without_rich()
