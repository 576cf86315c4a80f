"""A value of a YAML file before anybody decides what it means. Here by itself: a message's reader needs no YAML."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar that YAML takes for something other than text. `text` is what stands in the file."""

    text: str
    kind: str  # "a number", "a boolean", "null" or "a date"

    def __str__(self) -> str:
        return self.text
