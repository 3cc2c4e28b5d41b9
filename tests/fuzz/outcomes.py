"""Allowed outcomes of a mutated input: success, or an error that says what is wrong with it."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

_CLEAR = (ValueError, TypeError, OSError)
# Subclasses of these that say what went wrong inside, not what was wrong with the input.
_INTERNAL = (UnicodeError, json.JSONDecodeError, np.linalg.LinAlgError, pa.ArrowException)
_OWN = ("/lwcs/", "/sklearn/", "/click/")


class Wrong(Exception):  # noqa: N818
    """An outcome that is not allowed."""


def attempt(call: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether a call succeeds, and its result or its error; raise Wrong if it fails badly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return True, call()
        except Exception as error:
            check_error(error)
            return False, error


def check_error(error: Exception) -> None:
    """Refuse errors without words, of internal kinds, and of libraries below."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{last.filename}:{last.lineno}"
    if not isinstance(error, _CLEAR) or isinstance(error, _INTERNAL):
        raise Wrong(f"{type(error).__name__} at {where}: {error}") from error
    if not str(error).strip():
        raise Wrong(f"{type(error).__name__} without words at {where}") from error
    named = isinstance(error, OSError) and error.filename is not None
    if not named and not any(own in last.filename for own in _OWN):
        raise Wrong(f"{type(error).__name__} of a library at {where}: {error}") from error


def demand(condition: bool, what: str) -> None:
    """Refuse an answer that is not the right one."""
    if not condition:
        raise Wrong(what)
