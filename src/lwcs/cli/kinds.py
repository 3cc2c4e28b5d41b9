"""Kinds of values that options take: lists of numbers and of names, amounts of memory."""

from __future__ import annotations

import csv
from typing import Any

import click

from lwcs.foundation.amounts import parsed


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Parameter type: integers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 1000,2000 into [1000, 2000]."""
        if not isinstance(value, str):
            return value
        try:
            return [int(part.replace("_", "")) for part in value.split(",")]
        except ValueError:
            self.fail(
                f"{value!r} is not a list of integers; pass for example 1000,2000", param, ctx
            )


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: an amount of memory."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn 512MB into 512000000."""
        if not isinstance(value, str):
            return value
        amount = parsed(value)
        if amount is None:
            self.fail(
                f"{value!r} is not an amount of memory; pass for example 512MB or 2GB", param, ctx
            )
        return amount


class Names(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: names separated by commas, written as in a line of a CSV file."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Turn a,b into ["a", "b"], and "a,b" in double quotes into ["a,b"]."""
        if not isinstance(value, str):
            return value
        try:
            return next(csv.reader([value], strict=True)) or [""]
        except csv.Error:
            self.fail(
                f"{value!r} is not a list of names; separate them by commas, and put a name that "
                "has a comma, a quote or a line break in double quotes, with its own quotes "
                "doubled",
                param,
                ctx,
            )
