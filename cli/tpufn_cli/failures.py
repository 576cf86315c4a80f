"""An error as a person reads it: every problem on its own line, then the next step; never a traceback.

    error: job.yaml:7: unknown key 'comand'; did you mean command?
    error: job.yaml:9: tpu: there is no v6e-20; the nearest sizes are v6e-16 and v6e-32
    next: correct the file and check it with `tpufn validate-jobs`

Exit codes are the error classes' own. Output that cannot be written is 74; a defect, which is any other exception that
is not a TpufnError, is 70.
"""

import errno
import traceback

import click
from click.exceptions import NoArgsIsHelpError

from tpufn.domain.errors import InputError, StateUnusable, TpufnError

DEFECT = 70
INTERRUPTED = 130
_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
"""What writing to stdout may raise; a file would be named by its error."""
_NEXT = {
    3: "`tpufn jobs` and `tpufn slots` list what there is",
    4: "look at the present state with `tpufn job ID` or `tpufn slots`, then decide again",
}
"""For messages that bring no fix of their own."""


def report(error: BaseException) -> int:
    """Tell the user about `error` on stderr; the exit code."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return _report_usage(error)
    if isinstance(error, TpufnError):
        found = problems(error)
        _say(found, "" if any("`" in line or "; " in line for line in found) else _NEXT.get(error.exit_code, ""))
        _trace(error)
        return error.exit_code
    if isinstance(error, OSError) and error.filename is not None:
        _say([f"{error.filename}: {error.strerror}"], "")
        _trace(error)
        return StateUnusable.exit_code if _is_ours(str(error.filename)) else InputError.exit_code
    if isinstance(error, OSError) and error.errno in _OUTPUT:
        _say([f"the output cannot be written: {error.strerror}"], "")
        _trace(error)
        return StateUnusable.exit_code
    if isinstance(error, Exception):
        _say([f"a defect in tpufn: {type(error).__name__}: {error}"], "set TPUFN_DEBUG=1 and report what it prints")
        _trace(error)
        return DEFECT
    raise error


def _is_ours(path: str) -> bool:
    """Whether a file is one of our own state, and not one that somebody named."""
    from pathlib import Path

    from tpufn import settings

    return Path(path).is_relative_to(settings.load().home)


def problems(error: TpufnError) -> list[str]:
    """The single problems of an error, one line each."""
    found = error.problems if isinstance(error, InputError) else (str(error),)
    return [line for problem in found for line in (problem.splitlines() or [type(error).__name__])]


def _report_usage(error: click.ClickException) -> int:
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return error.exit_code
    ctx = getattr(error, "ctx", None)
    hint = f"`{ctx.command_path} --help` shows how it is called" if ctx is not None else ""
    message = error.format_message()
    _say([message[:1].lower() + message[1:].rstrip(".")], hint)
    return InputError.exit_code


def _say(lines: list[str], next_step: str) -> None:
    for line in lines:
        click.echo(f"{click.style('error:', fg='red', bold=True)} {line}", err=True)
    if next_step:
        click.echo(f"{click.style('next:', dim=True)} {next_step}", err=True)


def _trace(error: BaseException) -> None:
    from tpufn import settings

    if settings.debug():
        click.echo("".join(traceback.format_exception(error)), err=True)
