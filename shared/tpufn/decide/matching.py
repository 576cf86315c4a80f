"""Which pending jobs can be placed together: a greedy in rank order with augmenting paths.

Sets of jobs that can be matched together are the independent sets of a transversal matroid, so taking each job in rank
order whenever an augmenting path exists gives at once a largest matching and the lexicographically best one by rank.

The graph is small because it is drawn between *bins*, not slots: a bin is what is alike to every job (the idle slots
of one pool, or one slot that some job names). A bin is *open* while an alternating path leads from it to a free place.
A search that fails has seen only bins that no path leads out of, and since places are never given back, those stay
closed: failed searches are at most as many as bins, and a job that accepts only closed bins costs a look-up.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class Bin:
    """`room` alike places that answer to any of `keys`. Bins are tried in the order given: the cheapest first."""

    name: str
    keys: frozenset[str]
    room: int


class Matching:
    """Grows by `offer`, best rank first. Bins are numbered in the order given."""

    def __init__(self, bins: Sequence[Bin]) -> None:
        self._bins = bins
        self._left = [b.room for b in bins]
        self._closed = [False] * len(bins)
        self._jobs: list[dict[tuple[int, ...], list[str]]] = [{} for _ in bins]  # bin -> accepted bins -> jobs there
        self._accepting: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._by_key: dict[str, list[int]] = {}
        for i, b in enumerate(bins):
            for key in b.keys:
                self._by_key.setdefault(key, []).append(i)

    def open_keys(self) -> frozenset[str]:
        """The keys of every bin that may still take a job."""
        return frozenset(
            key for b, closed in zip(self._bins, self._closed, strict=True) if not closed for key in b.keys
        )

    def offer(self, job: str, accepts: tuple[str, ...], *, near: Collection[str] = ()) -> bool:
        """Place a job, moving placed ones to other bins that they accept where that makes room. Bins named in `near`
        are tried first. False when no set with all the jobs placed so far and this one exists."""
        bins = self._bins_for(accepts)
        starts = [i for i in bins if not self._closed[i]]
        if near:
            starts.sort(key=lambda i: self._bins[i].name not in near)
        path = self._path(starts)
        if path is None:
            return False
        self._shift(path)
        self._put(job, bins, path[0])
        return True

    def placed(self) -> Iterator[tuple[str, str]]:
        """(job, bin name) for every placed job."""
        for b, groups in zip(self._bins, self._jobs, strict=True):
            for jobs in groups.values():
                for job in jobs:
                    yield job, b.name

    def _bins_for(self, accepts: tuple[str, ...]) -> tuple[int, ...]:
        known = self._accepting.get(accepts)
        if known is None:
            known = tuple(sorted({i for key in accepts for i in self._by_key.get(key, ())}))
            self._accepting[accepts] = known
        return known

    def _path(self, starts: Iterable[int]) -> list[int] | None:
        """The shortest alternating path from one of `starts` to a bin with room; on failure closes what it saw."""
        came: dict[int, int] = dict.fromkeys(starts, -1)
        queue = deque(came)
        while queue:
            here = queue.popleft()
            if self._left[here]:
                return self._walk_back(came, here)
            for there in self._exits(here):
                if there not in came and not self._closed[there]:
                    came[there] = here
                    queue.append(there)
        for seen in came:
            self._closed[seen] = True
        return None

    def _exits(self, here: int) -> Iterator[int]:
        """The bins to which a job placed `here` could move."""
        for bins, jobs in self._jobs[here].items():
            if jobs:
                yield from bins

    @staticmethod
    def _walk_back(came: dict[int, int], end: int) -> list[int]:
        path = [end]
        while came[path[-1]] >= 0:
            path.append(came[path[-1]])
        return path[::-1]

    def _shift(self, path: list[int]) -> None:
        """Move one job along each edge of the path, the last edge first: the first bin has a place then."""
        for here, there in reversed(list(pairwise(path))):
            bins = next(bins for bins, jobs in self._jobs[here].items() if jobs and there in bins)
            self._put(self._jobs[here][bins].pop(), bins, there)
            self._left[here] += 1

    def _put(self, job: str, bins: tuple[int, ...], where: int) -> None:
        self._jobs[where].setdefault(bins, []).append(job)
        self._left[where] -= 1
