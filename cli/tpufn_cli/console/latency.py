"""How far a zone is: the median of a few TCP connects to a Google front end in its region.

The endpoint is the region's own Cloud Run host name, which is served in the region; nothing is sent. A figure is good
for a day. Offline there is none, shown as `-`, and that is tried again after a quarter of an hour.
"""

import socket
import statistics
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from tpufn.domain.accelerators import region_of
from tpufn_cli.console.memory import Memory

GOOD_FOR = 86400.0
OFFLINE_FOR = 900.0
OFFLINE = -1.0
_CONNECTS, _TIMEOUT, _AT_ONCE = 3, 2.0, 8


def endpoint(region: str) -> tuple[str, int]:
    """A host that Google serves in that region."""
    return f"{region}-run.googleapis.com", 443


def connect_time(address: tuple[str, int]) -> float:
    """Milliseconds of the median connect, the name's resolution left out; OFFLINE where none succeeds."""
    times: list[float] = []
    with suppress(OSError):
        resolved = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4]
        for _ in range(_CONNECTS):
            start = time.perf_counter()
            socket.create_connection((str(resolved[0]), int(resolved[1])), timeout=_TIMEOUT).close()
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times) if times else OFFLINE


def measure(
    regions: Collection[str],
    memory: Memory,
    *,
    now: float,
    connect: Callable[[tuple[str, int]], float] = connect_time,
) -> dict[str, float]:
    """region -> milliseconds: remembered ones, and fresh ones where the remembered are too old."""
    known = memory.latencies()
    stale = [region for region in dict.fromkeys(regions) if not _is_fresh(known.get(region), now)]
    if stale:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fresh = dict(zip(stale, pool.map(lambda region: connect(endpoint(region)), stale), strict=True))
        known |= {region: (figure, now) for region, figure in fresh.items()}
        memory.add_latencies({region: known[region] for region in stale})
    return {region: known[region][0] for region in regions}


def _is_fresh(entry: tuple[float, float] | None, now: float) -> bool:
    if entry is None:
        return False
    figure, at = entry
    return 0 <= now - at < (GOOD_FOR if figure >= 0 else OFFLINE_FOR)


def shown(zone: str, figures: dict[str, float]) -> str:
    """`~140ms`, or `-` where nothing is known."""
    figure = figures.get(region_of(zone), OFFLINE)
    return f"~{figure:.0f}ms" if figure >= 0 else "-"
