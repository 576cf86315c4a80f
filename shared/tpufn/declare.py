"""The document `fleet/current`: what a deployment file declares, and which version of the functions serves it."""

import re
import secrets
import uuid
from contextlib import suppress
from dataclasses import replace

from tpufn.domain.errors import CommitUnknown, Stale
from tpufn.domain.fleet import Fleet
from tpufn.ports import Commit, Store


def apply_fleet(store: Store, fleet: Fleet, *, anew: bool = False) -> Fleet:
    """A new revision where anything differs, or in any case with `anew`: what the old one could not have is asked for
    again. The deployment's nonce is made once and kept. Raises Stale."""
    with store.cut() as cut:
        there = cut.fleet()
    kept = there or Fleet(name=fleet.name, nonce=secrets.token_hex(4))
    fresh = replace(fleet, nonce=kept.nonce, functions=kept.functions, revision=kept.revision, version=kept.version)
    if fresh == there and not anew:
        return fresh
    fresh = replace(fresh, revision=kept.revision + 1)
    store.commit(Commit(id=uuid.uuid4().hex, writes=(fresh,)))
    return fresh


def stamp_functions(store: Store, version: str) -> None:
    """Say which version of the functions runs. One that loses a race is content: it would have said the same."""
    with store.cut() as cut:
        there = cut.fleet()
    if there is None or there.functions == version:
        return
    with suppress(Stale, CommitUnknown):
        store.commit(Commit(id=uuid.uuid4().hex, writes=(replace(there, functions=version),)))


def version_advice(functions: str, client: str) -> tuple[str, ...]:
    """What to do where the deployed functions are not of the client's version; nothing where nobody has said."""
    if not functions or functions == client:
        return ()
    behind = "the functions" if _numbers(functions) < _numbers(client) else "this command line"
    fix = "`tpufn deploy`" if behind == "the functions" else f"`pip install tpufn=={functions}`"
    return (f"the deployed functions are tpufn {functions}, this command line is {client}: {fix} brings {behind} up",)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
