"""The service: who may do what, what is remembered, and every protocol at the door."""

import sys

# structlog imports Rich and Pygments where they are installed, for tracebacks in colour that no log line of the service
# has: a tenth of its start. Other code that wants Rich finds it afterwards.
_without_rich = "rich" not in sys.modules
if _without_rich:
    sys.modules["rich"] = None  # type: ignore[assignment] # the documented way to make an import fail

import structlog  # noqa: E402, F401

if _without_rich:
    del sys.modules["rich"]
