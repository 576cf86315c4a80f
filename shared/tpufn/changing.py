"""The changing half of every mode's client: what people send, and what becomes of it as far as one can see at once."""

import uuid
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tpufn.decide.submit import is_of, taken
from tpufn.domain.errors import Conflict, InputError, NotFound, PartlyDone, TpufnError
from tpufn.domain.events import Command, Submission
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Bundle, Job, JobEvent, JobState, Priority
from tpufn.domain.notes import Note
from tpufn.domain.slot import SlotState
from tpufn.domain.views import DeadLetter, Receipt, SlotView
from tpufn.ports import DeadLetters
from tpufn.reading import Reading
from tpufn.wire import to_body

FREE = SlotState.FREE.value
_EFFECT_WAIT = 5.0
_NOTHING = "; nothing was done to the others either"


class Changing(Reading):
    """See `client.Client` for the contract. A mode says how a message leaves, and whether anybody is there for it."""

    def __init__(
        self, *, user: str, scratch: Path, new_id: Callable[[], str], letters: DeadLetters, **reading: Any
    ) -> None:
        super().__init__(**reading)
        self._user, self._scratch, self._new_id, self._letters = user, scratch, new_id, letters

    @abstractmethod
    def _publish(self, topic: str, body: Mapping[str, Any]) -> None: ...

    def _loaded(self, path: str) -> Fleet:
        """The fleet of a deployment file, which has to be this deployment's."""
        from tpufn.spec.deployment import load_deployment

        fleet = load_deployment(path).fleet if path else self._declared
        if fleet is None:
            raise InputError("no deployment file: name one, or go to where a deployment.yaml is")
        with self._store.cut() as cut:
            there = cut.fleet()
        if there is not None and there.name != fleet.name:
            raise Conflict(f"{path} declares {fleet.name}, and this is {there.name}: `tpufn -d {path} fleet apply`")
        return fleet

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        return tuple(self._letters.letters())

    def replay(self, ids: Collection[str]) -> Mapping[str, str]:
        done = {letter.id: letter for letter in self._letters.replay(ids)}
        missing = [id for id in ids if id not in done]
        if missing:
            raise NotFound(f"there is no dead letter {', '.join(missing)}; `tpufn dead-letters list` lists them")
        return {id: f"sent again to {one.topic}" if one.topic else "forgotten" for id, one in done.items()}

    @abstractmethod
    def _is_served(self) -> bool:
        """Whether an effect of a message is to be expected soon."""

    def serves(self) -> bool:
        return self._is_served()

    def submit(
        self, path: str, *, job_id: str = "", submission_id: str = "", progress: Callable[[Note], None] | None = None
    ) -> Receipt:
        from tpufn.spec.jobs import load_jobs
        from tpufn.spec.regions import resolve_file
        from tpufn.spec.submission import check_job_id, digest, write_submission

        tell = progress or (lambda note: None)
        fleet = self.fleet()
        loaded = load_jobs(path, fleet=fleet)
        check_job_id(job_id, loaded.jobs)
        resolved = resolve_file(loaded, fleet, self._blobs.region)
        assumed = dict.fromkeys(line for buckets in resolved.buckets for line in self._assumed(buckets, fleet))
        warnings = (*loaded.warnings, *resolved.warnings, *assumed)
        count = len(loaded.jobs)
        tell(
            _note("job.validated", f"{path}: {count} job{'s' * (count != 1)}", warnings="\n".join(warnings), jobs=count)
        )
        bundles = self._bundles(
            [(j.bundle, b) for j, b in zip(loaded.jobs, resolved.buckets, strict=True)], loaded.base_dir, tell
        )
        submission_id = submission_id or job_id or self._new_id()
        body = write_submission(
            loaded.jobs, buckets=resolved.buckets, bundles=bundles, submission_id=submission_id, job_id=job_id
        )
        receipt = Receipt(submission=submission_id, digest=digest(body), jobs=tuple(job["id"] for job in body["jobs"]))
        self._refuse_taken(receipt)
        self._publish("submissions", to_body(Submission(id=submission_id, body=body)))
        return receipt

    def _assumed(self, buckets: Mapping[str, str], fleet: Fleet) -> Iterator[str]:
        """What is taken for granted of buckets (region -> name), each in words."""
        yield from ()

    def _refuse_taken(self, receipt: Receipt) -> None:
        """What can be seen here already, before anything is sent; who comes first in between, `submit` decides."""
        with self._store.cut() as cut:
            there = [job for id in receipt.jobs if (job := cut.job(id)) is not None]
        others = [job.id for job in there if not is_of(job, receipt.submission, receipt.digest)]
        if others:
            raise Conflict(taken(others))

    def _bundles(
        self, wanted: list[tuple[str, Mapping[str, str]]], base: Path, tell: Callable[[Note], None]
    ) -> list[Bundle]:
        """Each source built once, and uploaded once to every bucket that wants it."""
        built: dict[str, Any] = {}
        for source, buckets in wanted:
            if source not in built:
                built[source] = self._build(source, base, tell)
            if built[source].path is not None:
                self._upload(built[source].bundle, str(built[source].path), buckets, tell)
        return [built[source].bundle for source, _ in wanted]

    def _build(self, source: str, base: Path, tell: Callable[[Note], None]) -> Any:
        from tpufn.spec.bundle import build

        self._scratch.mkdir(parents=True, exist_ok=True)
        built = build(source, base=base, into=self._scratch)
        b = built.bundle
        reason = f"{b.files} files, {b.size} bytes, sha256 {b.sha256[:12]}" if b.sha256 else b.uri
        warnings = "\n".join(built.notes)
        tell(_note("bundle.built", reason, files=b.files, size=b.size, sha256=b.sha256, warnings=warnings))
        return built

    def _upload(self, bundle: Bundle, path: str, buckets: Mapping[str, str], tell: Callable[[Note], None]) -> None:
        for region, bucket in buckets.items():
            sent = self._blobs.upload(bucket, bundle.key, path)
            reason = f"gs://{bucket} ({region})" + ("" if sent else ": it is there already")
            tell(_note("bundle.uploaded", reason, bucket=bucket, region=region, sent=sent))

    def cancel(self, ids: Collection[str], *, if_pending: bool = False) -> Mapping[str, str]:
        jobs, refused = dict[str, Job | None](), list[TpufnError]()
        for id in dict.fromkeys(ids):
            try:
                jobs[id] = self._cancellable(id)
            except (NotFound, Conflict) as error:
                refused.append(error)
        if refused and not jobs:
            raise type(refused[0])("\n".join(map(str, refused)))
        for id in jobs:
            self._command("cancel", id, if_pending=if_pending)
        answers = {id: self._after_cancel(id, job, if_pending=if_pending) for id, job in jobs.items()}
        if refused:
            raise PartlyDone(answers, refused)
        return answers

    def _cancellable(self, id: str) -> Job | None:
        job = self._found(id)
        if job and job.is_terminal:
            raise Conflict(f"{job.id} has ended already ({job.state}); there is nothing to cancel")
        return job

    def _after_cancel(self, id: str, job: Job | None, *, if_pending: bool) -> str:
        """`job` is None where its submission is not handled yet: the command comes after it."""
        if job and if_pending and job.state is not JobState.PENDING:
            return f"is {job.state} and stays so: only pending jobs were to be cancelled"
        if not self._is_served():
            return self._later("cancelled", "where it is pending still" if if_pending else "")
        now = self._until(id, lambda j: not j.allows(JobEvent.CANCEL))
        if now is None:
            return "will be cancelled once its submission is handled"
        if now.state is JobState.CANCELLING:
            return "is being cancelled: it stops on every worker"
        return "cancelled" if now.state is JobState.CANCELLED else f"{now.state}: {now.cause}"

    def set_priority(self, id: str, priority: Priority) -> str:
        job = self.job(id).job
        if job.is_terminal:
            raise Conflict(f"{id} has ended already ({job.state}); its priority does not matter any more")
        self._command("set-priority", id, priority=priority.label)
        now = self._until(id, lambda j: j.priority is priority)
        label = f"priority {priority.label}"
        return label if now and now.priority is priority else self._later(f"of {label}")

    def retry(self, id: str) -> str:
        job = self.job(id).job
        if job.state not in (JobState.FAILED, JobState.CANCELLED):
            raise Conflict(f"{id} is {job.state}: only a failed or cancelled job can be tried again")
        fresh = f"{id}-retry-{job.retries + 1}"
        self._command("retry", id, **{"as": fresh})
        self._until(id, lambda j: j.retries > job.retries)
        return fresh

    def interrupt(self, slot: str) -> str:
        view = next((s for s in self.slots() if s.name == slot), None)
        if view is None:
            raise NotFound(f"there is no slot {slot}; `tpufn slots` lists them")
        if not view.attempt:
            raise Conflict(f"{slot} is {view.state}: no job runs there")
        self._command("interrupt", slot, generation=view.generation, attempt=view.attempt)
        if not self._is_served():
            return self._later("given up", f"and {view.job} retries")
        return f"{view.job} stops and retries; {slot} gives its TPU up"

    def queue(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("queue", s, "asked for, and held for you") for n, s in self._named(names, FREE).items()}

    def race(self, names: Collection[str]) -> str:
        chosen = self._named(names, FREE)
        self._command("race", next(iter(chosen)), slots=list(chosen))
        asked = f"asked for {len(chosen)} at once" if self._is_served() else self._later("asked for all at once")
        return f"{asked}; the first that is granted is kept for you: {', '.join(chosen)}"

    def hold(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("hold", s, f"held for {self._user}") for n, s in self._named(names).items()}

    def release(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("release", s, "given back to the jobs") for n, s in self._named(names).items()}

    def delete(self, names: Collection[str]) -> Mapping[str, str]:
        chosen = self._named(names)
        nothing = _NOTHING if len(chosen) > 1 else ""
        for slot in chosen.values():
            if slot.attempt:
                give_up = f"`tpufn interrupt {slot.name}` gives it up"
                raise Conflict(f"{slot.name}: {slot.job} runs there; {give_up}{nothing}")
        return {n: self._wish("delete", s, "deleted") for n, s in chosen.items()}

    def _named(self, names: Collection[str], *states: str) -> dict[str, SlotView]:
        """The slots of these names. Raises NotFound, or Conflict where one is in another state."""
        known = {s.name: s for s in self.slots()}
        nothing = _NOTHING if len(names) > 1 else ""
        for name in names:
            if name not in known:
                raise NotFound(f"there is no slot {name}; `tpufn slots` lists them{nothing}")
            if states and known[name].state not in states:
                raise Conflict(f"{name} is {known[name].state}, not {' or '.join(states)}{nothing}")
        return {name: known[name] for name in names}

    def _wish(self, verb: str, slot: SlotView, what: str) -> str:
        self._command(verb, slot.name, generation=slot.generation)
        return what if self._is_served() else self._later(what)

    def _command(self, verb: str, target: str, **args: Any) -> None:
        command = Command(verb=verb, target=target, args=args, by=self._user, id=uuid.uuid4().hex)
        self._publish("commands", to_body(command))

    def _until(self, id: str, done: Callable[[Job], bool]) -> Job | None:
        """The job once `done`, or as it is after a few seconds (at once where no engine runs); None where it is on its
        way still."""
        deadline = self._clock.now() + (_EFFECT_WAIT if self._is_served() else 0.0)
        while True:
            job = self._found(id)
            if (job and done(job)) or self._clock.now() >= deadline:
                return job
            self._clock.sleep(self._pace.wait)

    @staticmethod
    def _later(what: str, more: str = "") -> str:
        """What is sent and not done: nobody is there to do it."""
        return " ".join(filter(None, ("will be", what, more, "once an engine runs (`tpufn up`)")))


def _note(event: str, reason: str, **data: str | int | bool) -> Note:
    return Note(event=event, subject="", reason=reason, data=data)
