"""The errors, as one small tree. A class says what to do next; its message names the thing, the cause and the fix.

TpufnError
├── InputError           tell the user: the input is wrong                      exit 2
├── NotFound             tell the user: no such job, slot or attempt            exit 3
├── Conflict             tell the user: it exists already, or differently       exit 4
│   └── PartlyDone       tell the user: what was done, and why the rest was not
├── CloudUnavailable     tell the user: the cloud is unreachable or refuses     exit 5
├── StateUnusable        tell the user: a file of ours is damaged or read-only  exit 74
├── Refused              the TPU API said no; `decide.refusals` classifies the text
├── Unknown              the call may have taken effect: read before anything destructive
├── Stale                somebody committed first: reload and decide again
├── CommitUnknown        the commit's answer was lost: reload and look for its id
└── IllegalTransition    a state machine has no such edge: a defect, or an event that came too late
"""

from collections.abc import Iterable, Mapping, Sequence


class TpufnError(Exception):
    """Any error that tpufn raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(TpufnError):
    """What the user wrote is wrong. Carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class NotFound(TpufnError):
    """The named job, slot, attempt or object does not exist."""

    exit_code = 3


class Conflict(TpufnError):
    """The name is taken by something else, or the thing is no longer in the state that the person saw."""

    exit_code = 4


class CloudUnavailable(TpufnError):
    """The cloud cannot be reached, or refuses us altogether (login, API, permission)."""

    exit_code = 5


class PartlyDone(Conflict):
    """Some of several could not be done. `done` is what became of the others, in words."""

    def __init__(self, done: Mapping[str, str], causes: Sequence[TpufnError]) -> None:
        self.done = dict(done)
        super().__init__("\n".join(map(str, causes)))


class StateUnusable(TpufnError):
    """A file that tpufn keeps on this machine cannot be read or written. The code is that of `sysexits.h` for I/O."""

    exit_code = 74


class Refused(TpufnError):
    """The TPU API refused a call. `code` is the gRPC status number, `text` the API's own words."""

    exit_code = 5

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(f"{code}: {text}")


class Unknown(TpufnError):
    """A call ended without an answer: it may or may not have taken effect."""

    exit_code = 5


class Stale(TpufnError):
    """A document changed between load and commit; nothing of the commit was applied."""


class CommitUnknown(TpufnError):
    """The commit may have been applied; its answer was lost."""


class IllegalTransition(TpufnError):
    """The table has no such edge. The value is unchanged."""
