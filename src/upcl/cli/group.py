"""The `upcl` command: a group that imports the module of a command when the command is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from upcl import __version__
from upcl.core.errors import unknown_choice

from .console import report_errors
from .session import terminal_session
from .streams import safe_output

SECTIONS: dict[str, dict[str, str]] = {
    "Models from photos": {
        "learn": "learn",
        "predict": "predict",
        "info": "model",
        "history": "model",
        "rollback": "model",
        "forget": "model",
        "rename": "model",
        "merge": "model",
        "correct": "model",
        "label": "teach",
        "explain": "teach",
        "card": "teach",
        "export": "deploy",
        "serve": "deploy",
        "studio": "deploy",
    },
    "Experiments": {
        "demo": "train",
        "train": "train",
        "grid": "grid",
        "import": "imports",
        "report": "report",
        "compare": "compare",
        "reproduce": "reproduce",
        "audit": "reproduce",
    },
    "Methods and data sets": {
        "methods": "catalog",
        "show": "catalog",
        "backbones": "catalog",
        "datasets": "catalog",
        "scenarios": "catalog",
        "data": "data",
    },
    "Checks on this machine": {
        "bench": "bench",
        "verify-resume": "train",
    },
}
"""Sections of `upcl --help`: each command and the module of this package that defines it."""


class SuggestingGroup(click.Group):
    """A group that suggests the nearest command for an unknown one.

    Example:
        >>> from click.testing import CliRunner
        >>> group = SuggestingGroup(commands={"train": click.Command("train")})
        >>> print(CliRunner().invoke(group, ["trian"]).output, end="")
        error: unknown command 'trian': did you mean train?
    """

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find a command by its name.

        Args:
            ctx: the context of the group.
            args: the name of the command and its arguments.
        """
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            click.echo(f"error: {unknown_choice('command', args[0], self.list_commands(ctx))}", err=True)
            ctx.exit(2)
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group whose commands live in modules that are imported on use, listed in sections.

    Args:
        sections: titles of sections; of each, the commands and the modules that define them. The command `a-b` is the
            attribute `a_b` of its module, and a command that is a word of Python has an underscore at the end.
        kwargs: passed on to `click.Group`.

    Example:
        >>> group = LazyGroup(sections={"Lists": {"methods": "catalog"}})
        >>> group.list_commands(click.Context(group))
        ['methods']
        >>> group.get_command(click.Context(group), "methods").name
        'methods'
    """

    def __init__(self, *, sections: Mapping[str, Mapping[str, str]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sections = sections
        self._modules = {name: module for commands in sections.values() for name, module in commands.items()}

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line with safe output.

        Args:
            args: passed on.
            kwargs: passed on.
        """
        with safe_output():
            return report_errors()(super().main)(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands, in the order of the sections.

        Args:
            ctx: the context of the group.
        """
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None if there is no such command.

        Args:
            ctx: the context of the group.
            cmd_name: the name of the command.
        """
        if cmd_name not in self._modules:
            return None
        module = import_module(f".{self._modules[cmd_name]}", __package__)
        attribute = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name.replace("-", "_")
        command: click.Command = getattr(module, attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of the help.

        Args:
            ctx: the context of the group.
            formatter: what the help is written to.
        """
        widest = max(map(len, self._modules))
        limit = formatter.width - 6 - widest
        for title, names in self.sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), command.get_short_help_str(limit)) for name, command in commands if command]
                )


@click.group(cls=LazyGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Class-incremental image classification: classes arrive over time, and most old images are gone.

    \b
    Start with your photos:
      upcl learn birds/ --model birds.upcl        one sub-folder per class
      upcl predict --model birds.upcl photo.jpg   classify a photo
    Start with research:
      upcl demo                                   compare three methods
      upcl train upcl --data digits               train one method

    `upcl COMMAND --help` explains a command, with examples.
    """
    from upcl.core.allocation import keep_freed_memory

    keep_freed_memory()
    ctx.with_resource(terminal_session())
