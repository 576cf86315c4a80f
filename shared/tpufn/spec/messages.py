"""The two other messages that services exchange with tpufn: commands come in, events go out. For their schemas.

The models mirror `domain.events.Command` and `domain.notes.Note`; a test holds them together.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Verb = Literal[
    "cancel",
    "set-priority",
    "retry",
    "interrupt",
    "hold",
    "queue",
    "race",
    "release",
    "delete",
    "drain",
    "apply-fleet",
]


class CommandMessage(BaseModel):
    """One wish of a person, on the topic `commands`. It names what the person saw, and does nothing otherwise."""

    model_config = ConfigDict(extra="ignore")

    verb: Verb = Field(description="What to do.")
    target: str = Field(description="The id of a job, or the name of a slot.", examples=["train-7b"])
    args: dict[str, object] = Field(
        default_factory=dict,
        description="What the person saw (attempt, generation, version) and what the verb needs (priority, ...).",
    )
    by: str = Field(default="", description="Who asks, for the history.", examples=["me@example.org"])
    id: str = Field(default="", description="The message's own id: the same id twice is one command.")


class EventMessage(BaseModel):
    """One thing that happened, on the topic `notices` and in a job's history. More keys may come."""

    model_config = ConfigDict(extra="ignore")

    event: str = Field(description="A dotted name.", examples=["race.won"])
    subject: str = Field(description="`job:ID`, `slot:NAME` or `attempt:JOB.N`.", examples=["job:train-7b"])
    reason: str = Field(default="", description="Why, in words, with the numbers.")
    job: str = Field(default="", description="The job's id.")
    attempt: str = Field(default="", description="The attempt's id.")
    slot: str = Field(default="", description="The slot's name.")
    correlation_id: str = Field(default="", description="The submitter's own, of the job that it is about.")
    at: float = Field(default=0.0, description="When, in Unix seconds.")
    id: str = Field(default="", description="Unique and stable: an event that arrives twice has the same id.")
    data: dict[str, str | int | float | bool | None] = Field(
        default_factory=dict, description="More about this event, flat."
    )
