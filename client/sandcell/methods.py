"""Operations as methods: with the signature that `help()`, editors and consoles show."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def describe(call: Callable[..., Any], operation: Callable[..., Any], owner: str, *, bound: int = 0) -> None:
    """Give a method of the class `owner` the name, docstring and signature of the operation that it carries out.

    The method takes `self` in place of the first `bound` arguments, and returns what the operation ends with.
    """
    functools.update_wrapper(call, operation, assigned=("__name__", "__doc__", "__annotations__"))
    call.__qualname__ = f"{owner}.{operation.__name__}"
    signature = inspect.signature(operation)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [self, *list(signature.parameters.values())[bound:]]
    result = str(signature.return_annotation).removeprefix("Operation[").removesuffix("]")
    vars(call)["__signature__"] = signature.replace(parameters=parameters, return_annotation=result)
    vars(call).pop("__wrapped__")  # whose annotations say otherwise
