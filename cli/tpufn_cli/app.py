"""The command `tpufn`: a click group that imports a command only when it runs, and the one place that exits.

Cold start is what a person feels first: nothing but click and the standard library is imported here, so that
`tpufn --help` costs no more than click itself.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from tpufn import __version__
from tpufn_cli.catalog import COMMANDS, EXIT_CODES, SECTIONS
from tpufn_cli.doors import Abandoned, Doors, Options, TpufnDoors
from tpufn_cli.failures import report

SIGNALLED = 128
"""Exit codes from here on tell which signal ended the command."""
STDERR = 2


class LazyGroup(click.Group):
    """Lists commands from the catalogue; imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(f"tpufn_cli.commands.{module}"), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # before click makes a failure of it
            return _leave_output()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else "`tpufn --help` lists them"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, entries in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(f"{entry.name:<{width}}", entry.help) for entry in entries])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(f"{code:<14}", meaning) for code, meaning in EXIT_CODES])
        formatter.write_paragraph()
        formatter.write_text("`tpufn COMMAND --help` ends with an example. First try: tpufn demo")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tpufn", message="%(prog)s %(version)s")
@click.option("-d", "--deployment", metavar="PATH", help="Deployment file, a path or gs://. [env: TPUFN_DEPLOYMENT]")
@click.option("--sandbox", is_flag=True, help="Use simulated TPUs; commands really run, on this machine.")
@click.option("--home", metavar="DIR", help="Where state lives. [env: TPUFN_HOME]")
@click.pass_context
def cli(ctx: click.Context, deployment: str | None, sandbox: bool, home: str | None) -> None:
    """Get scarce Google Cloud TPUs and keep them busy."""
    doors = ctx.obj if ctx.obj is not None else TpufnDoors()
    ctx.obj = Options(deployment=deployment, sandbox=sandbox, home=home, doors=doors)


def run(argv: Sequence[str], *, doors: Doors | None = None) -> int:
    """One command line from start to end; the exit code. `doors` is where clients and engines come from."""
    try:
        code = cli.main(args=list(argv), prog_name="tpufn", obj=doors, standalone_mode=False)
        return _flushed(code if isinstance(code, int) else 0)
    except Abandoned:
        raise
    except BrokenPipeError:
        return _leave_output()
    except OSError as error:
        _leave_output()
        return report(error)
    except BaseException as error:
        return report(error)


def main() -> None:
    """The console script. Nothing else in the package exits."""
    _open_standard_files()
    try:
        code = run(sys.argv[1:])
    except Abandoned:
        os._exit(130)  # the second Ctrl-C: threads of the engine are not waited for
    sys.exit(code)


def _flushed(code: int) -> int:
    """The code, once everything is written; one that tells of an early end stands, whoever reads the rest."""
    try:
        sys.stdout.flush()
    except OSError:
        if code < SIGNALLED:
            raise
        _leave_output()
    return code


def _leave_output() -> int:
    """The reader went away (`tpufn logs | head`): point stdout elsewhere, so that the interpreter's flush is quiet."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _open_standard_files() -> None:
    """Started with one of them closed (`>&-`), its number would be given to the next file that is opened."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        continue
    os.close(opened)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
