"""Dead letters, as a table."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from tpufn.domain.views import DeadLetter
from tpufn_cli.render import words
from tpufn_cli.render.console import table


def letters_table(letters: Iterable[DeadLetter], *, now: float) -> Table:
    """One row each: what it is about, and the beginning of what was sent."""
    made = table("id", "age", "topic", "function", "problem", "message", numbers=("age",))
    for letter in letters:
        sent = " ".join(letter.body.split())
        shown = sent if len(sent) <= 60 else f"{sent[:57]}..."
        cells = (letter.topic or "-", letter.function or "-", letter.problem, words.printable(shown))
        made.add_row(Text(letter.id), words.since(letter.at, now), *map(Text, cells))
    return made
