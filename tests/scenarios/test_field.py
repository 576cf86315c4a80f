"""What users of TPUs have met and no other scenario plays, each to the outcome that they should have had."""

import msgspec

from tpufn.codec import encode, reference
from tpufn.domain.events import Written
from tpufn.domain.job import JobState
from tpufn.domain.slot import SlotState
from tpufn.ports import Commit
from tpufn.simulation.scripted_script import HostScript, Script
from tpufn.simulation.universe_mail import TRIGGER

from .scene import V4, V6A, V6B, WIDE, Scene, pool

WORK = Script(run=600, checkpoint=60)


def test_a_create_that_stays_unfinished_while_the_node_is_ready() -> None:
    """Forty minutes of PROVISIONING, and the node answers: it is used, not given up and not asked for again."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = WORK
    scene.cloud.faults.inject("create-late", seconds=2400.0)
    scene.start("a")
    scene.until_ended("a", limit=1800)
    assert scene.outcomes("a") == ["succeeded"]
    assert len(scene.creates()) == 1


def test_all_workers_answer_but_one() -> None:
    """Nothing is started on the others; after the boot budget the TPU is replaced, and no place cools down for it."""
    scene = Scene(pool(*WIDE))
    scene.host_scripts["tpufn-lab-spot-v6e16-ue5b-1-g1", 2] = HostScript(is_deaf=True)
    scene.start("a")
    scene.until_ended("a", limit=1800)
    assert [run.tpu[-2:] for run in scene.workers.runs()] == ["g2"] * 4
    assert "3 of 4 workers answered" in " ".join(n.reason for n in scene.notes if n.event == "slot.releasing")
    with scene.store.cut() as cut:
        assert not [s for s in cut.scopes() if s.until > 0]


def test_unhealthy_for_maintenance_while_the_work_goes_on() -> None:
    """The heartbeats go on: the attempt lives, whatever the health says."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = WORK
    scene.start("a")
    scene.until_running("a")
    scene.cloud.faults.inject("ready-unhealthy")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]
    scene.until_empty()


def test_an_unhealthy_tpu_is_not_launched_on() -> None:
    """READY is not HEALTHY: the job starts when it is well, or on another one."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("missing-health", zone="us-central2-b")
    scene.start("a")
    scene.until_ended("a")
    assert [a.zone for a in scene.attempts("a")] == ["us-east5-a"]


def test_a_flood_does_not_take_the_place_of_a_retry() -> None:
    """It keeps its submit time: with one TPU there, the next attempt comes before everybody who came later."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=900, checkpoint=60)
    scene.start("a")
    scene.until_running("a")
    for number in range(30):
        scene.start(f"later-{number:02}", priority="low" if number % 2 else "normal")
    scene.run_for(120)
    scene.cloud.preempt(scene.attempt("a").tpu, notice=None)
    scene.until_state("a", JobState.SUCCEEDED)
    assert scene.outcomes("a") == ["preempted", "succeeded"]
    assert not [run for run in scene.workers.runs() if run.job != "a" and run.began < scene.attempt("a", 2).started_at]


def test_one_creation_that_is_told_three_times() -> None:
    """Each event three times over, in any order: one external create, one attempt, the same end."""
    scene = Scene(pool(*V4))
    for _ in range(3):
        scene.start("a")
    scene.after_commit = lambda commit: [scene.mail.post(TRIGGER, event) for event in caused(commit) * 2]
    scene.until_ended("a")
    scene.until_empty()
    assert (scene.outcomes("a"), len(scene.creates())) == (["succeeded"], 1)


def test_an_entry_that_gets_another_name() -> None:
    """Renamed in the middle of a run: the job ends on the old row, the next one uses the new."""
    old, new = pool(*V6B), pool(*V6B, code="new")
    scene = Scene(old)
    scene.scripts["a"] = WORK
    scene.start("a")
    scene.until_running("a")
    scene.change(new)
    scene.start("b")
    scene.until_ended("a", "b")
    assert (scene.outcomes("a"), scene.outcomes("b")) == (["succeeded"], ["succeeded"])
    assert scene.attempt("b").slot == new.slots[0]
    scene.until_slot(SlotState.RETIRED, old.slots[0])
    scene.until_empty()


def test_no_document_grows_with_what_failed() -> None:
    """A traceback of five megabytes, again and again: documents stay far below what a store refuses."""
    scene = Scene(pool(*V4))
    words = "Traceback: " + "x" * 5_000_000
    scene.scripts["a"] = Script(run=100, code=1, reason=words)
    scene.start("a", retries={"application": {"max": 12}})
    scene.until_ended("a")
    assert len(scene.attempts("a")) == 13
    assert size(scene.job("a")) < 8 * 1024
    documents = (scene.job("a"), *scene.attempts("a"), *scene.slots().values())
    assert max(map(size, documents)) < 100 * 1024
    assert max(len(note.reason) for note in scene.notes) < 10_000


def caused(commit: Commit) -> list[Written]:
    """The triggers of one commit."""
    refs = map(reference, commit.writes)
    return [Written(kind=kind, id=id) for kind, id in refs if kind in ("job", "slot", "attempt")]


def size(document: object) -> int:
    return len(msgspec.json.encode(encode(document)))
