"""Stores that a command reads from and writes to: the options that reach them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from lwcs.foundation.places import Access, is_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = "storage_option"

STORAGE_OPTION = click.option(
    "--storage-option",
    _NAME,
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of fsspec for URIs, such as anon=true or client_kwargs.endpoint_url=URL; can be "
    'given several times. true, false, {…}, […] and "…" are read as JSON, all other values are '
    "text.",
)


def access_of(storage_option: Sequence[str]) -> Access:
    """The access that KEY=VALUE describe, with dots for nested keys."""
    options: dict[str, Any] = {}
    for one in storage_option:
        key, equals, value = one.partition("=")
        *folders, last = key.split(".")
        if not equals or not all([*folders, last]):
            raise click.UsageError(
                f"--storage-option {one!r} is not KEY=VALUE; pass, for example, anon=true"
            )
        inner = options
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise click.UsageError(
                    f"--storage-option {one!r}: {folder!r} is given a value, too; leave out one"
                )
        if last in inner:
            raise click.UsageError(f"--storage-option {key}=… is given twice; pass it once")
        inner[last] = _value(value)
    return Access(storage_options=options or None)


def _value(text: str) -> Any:
    """Text, unless it can be nothing but JSON: keys and tokens may be digits, or null."""
    if text not in ("true", "false") and not text.startswith(("{", "[", '"')):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def refuse_unused() -> None:
    """Refuse options for URIs that are not any, or if no input and no output is a URI."""
    params = click.get_current_context().params
    access_of(params.get(_NAME, ()))
    names = [params.get(name) for name in ("output", "model", "file", "report")]
    if params.get(_NAME) and not any(
        is_uri(one) for one in (*names, *params.get("data", ())) if one
    ):
        raise click.UsageError(
            "--storage-option is for URIs such as s3://bucket/name, but all inputs and outputs are "
            "on this machine; leave it out"
        )


def access_to(path: str) -> Access:
    """The access of the running command to a path: options are for URIs."""
    context = click.get_current_context(silent=True)
    given = () if context is None else context.params.get(_NAME, ())
    return access_of(given) if is_uri(path) else Access()


def keywords(path: str) -> dict[str, Any]:
    """The same as keywords of `save` and `load`."""
    options = access_to(path).storage_options
    return {"storage_options": options} if options else {}
