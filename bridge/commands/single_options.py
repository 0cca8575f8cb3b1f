"""Commands that take each option once: of two values the last would count, and the first be dropped in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from typer import Typer
from typer.core import TyperCommand, TyperOption

Function = TypeVar("Function", bound=Callable[..., Any])


class SingleOptionsCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in dict.fromkeys(given):
            times = given.count(option)
            if times > 1 and isinstance(option, TyperOption) and not (option.multiple or option.is_flag):
                ctx.fail(f"{option.opts[0]} is given {times} times, and only one can count: give it once")
        return TyperCommand.parse_args(self, ctx, args)


class SingleOptionsApp(Typer):
    """Makes such commands of functions."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        made: Callable[[Function], Function] = Typer.command(
            self, name, **{"cls": SingleOptionsCommand, **settings}
        )
        return made
