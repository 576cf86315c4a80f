"""TPUs that were there before us: what their creation would have given them, they are given afterwards.

A TPU of ours knows the runner's key from its start-up script. An `existing` one has been started by somebody else: its
metadata gets the key (`ssh-keys`, as `gcloud compute tpus tpu-vm ssh` puts a person's there), of which the guest agent
makes an account that may use sudo. Over that account the same start-up script runs, once for each of its versions:
user, keys, directories, agent, devices. The deployment's own `startup_script` does not: the machine is its owner's.
"""

import hashlib
import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpufn.adapters.ssh_connection import Connector
from tpufn.adapters.ssh_target import Deadline, Host, Unreached
from tpufn.domain.cloud import LABEL_NONCE, Tpu
from tpufn.domain.errors import TpufnError

_LOG = logging.getLogger("tpufn.adoption")
_NEED = b"need\n"
_PREPARE = """\
[ -e "$1" ] && exit 0
umask 077 && mkdir -p "$(dirname "$1")" && exec 9>"$1.lock" || exit
flock -n 9 || { echo "somebody else prepares it" >&2; exit 75; }
[ -e "$1" ] && exit 0
echo need
cat >"$1.part" || exit
[ "$(sha256sum <"$1.part" | cut -c1-64)" = "$2" ] || { echo "the script did not arrive whole" >&2; exit 65; }
bash "$1.part" >"$1.log" 2>&1 9>&- || { code=$?; tail -n 1 "$1.log" >&2; exit $code; }
mv "$1.part" "$1"
"""
"""For root: run what comes in, if it is whole, unless this very script has run to its end before."""


class Admission(Protocol):
    """The way to a TPU's metadata. Raises TpufnError."""

    def admit(self, tpu: str, zone: str, user: str, keys: Sequence[str]) -> None:
        """Let `user` in with these public keys, and with no other of that name's. Nothing happens if that is so."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """`keys` are the runner's public ones, `script` is the start-up script for the TPU of a name."""

    admission: Admission
    user: str
    keys: Callable[[], Sequence[str]]
    script: Callable[[str], str]
    sudo: tuple[str, ...] = ("sudo", "-n", "--")
    own: str = "/var/lib/tpufn"  # on the worker, root's

    def prepared(self, connector: Connector, tpu: str) -> Callable[[Host, Deadline], int]:
        """What makes a worker of this TPU usable, and says so with 0. Raises Unreached."""
        script = self.script(tpu).encode()
        digest = hashlib.sha256(script).hexdigest()
        mark = f"{self.own}/prepared-{digest[:12]}"
        command = _joined(("exec", *self.sudo, "bash", "-c", _PREPARE, "tpufn", mark, digest))

        def prepare(host: Host, deadline: Deadline) -> int:
            with connector.run(host, command, deadline) as talk:
                said = talk.line()
                if said == _NEED:
                    talk.send(script)
                elif said:
                    raise Unreached(f"{host} cannot be prepared: it says {said[:80]!r} to whoever logs in")
                code = talk.end()
                if code:
                    raise Unreached(f"{host} was not prepared ({code}): {talk.complaint()}")
                return code

        return prepare

    def admit(self, tpu: Tpu, answers: Mapping[int, int | Unreached]) -> None:
        """Ask for our key to be let in, where a worker did not know it: it is there some seconds later. What keeps us
        out is logged: it is for the TPU's owner to mend."""
        missed = [answer for answer in answers.values() if isinstance(answer, Unreached)]
        causes = [answer.cause for answer in missed]
        if any(answer.refused for answer in missed):
            try:
                self.admission.admit(tpu.name, tpu.zone, self.user, self.keys())
            except TpufnError as error:
                causes.append(str(error))
        if causes:
            _LOG.warning("%s cannot be used yet: %s", tpu.name, "; ".join(dict.fromkeys(causes)))


def is_foreign(tpu: Tpu) -> bool:
    """Whether somebody else made it: what we order carries our nonce."""
    return not tpu.labels.get(LABEL_NONCE)


def _joined(words: Sequence[str]) -> str:
    return " ".join([words[0], *map(shlex.quote, words[1:])])
