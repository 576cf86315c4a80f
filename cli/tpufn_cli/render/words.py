"""Numbers in words: ages, sizes, money, plurals. One way for the whole command line."""

import re

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


def age(seconds: float) -> str:
    """`7s`, `3m`, `2h05m`, `4d03h`: at most two units, the second only from an hour on."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def since(moment: float, now: float) -> str:
    """The age of a moment; a dash for none."""
    return age(now - moment) if moment else "-"


def span(seconds: float) -> str:
    """A measured duration: tenths below a minute, `1m05s` below an hour, then as `age`."""
    if seconds < 0.05:
        return "0s"
    if seconds < 60:
        return f"{seconds:.1f}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m{int(seconds) % 60:02d}s"
    return age(seconds)


def size(count: float) -> str:
    """`512 B`, `3.4 KB`, `1.2 GB` (powers of 1000)."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def money(usd: float) -> str:
    """US dollars: two digits, more where they would show nothing."""
    return f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


def per_hour(usd: float) -> str:
    return f"${usd:.2f}/h" if usd else "-"


def chip_hours(chip_seconds: float) -> str:
    return f"{chip_seconds / 3600:.2f} chip-hours"


def count(number: int, noun: str) -> str:
    """`1 leg`, `3 legs`, `2 TPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bare(subject: str) -> str:
    """A note's subject without its kind: `slot:spot-v4-32-1` is `spot-v4-32-1`."""
    return subject.partition(":")[2] or subject


def printable(line: str) -> str:
    """A worker's line for a terminal: what a progress bar wrote last, without colours, cursor moves and bells."""
    return _CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).expandtabs(4)
