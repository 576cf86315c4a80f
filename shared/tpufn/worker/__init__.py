"""The agent that runs on each TPU worker: standard library only, Python 3.8+, sent as one file (see `archive`).

    agent launch --home DIR    reads a launch order, answers accepted or refused, leaves a supervisor behind
    agent stop --home DIR      reads a stop order, writes the tombstone, has the attempt stopped, verified and closed
    agent status --home DIR    answers with the attempts, the device holders and the fence
    agent ready --home DIR     at the end of a boot: tells that the worker is there (see `startup`)

Each reads one JSON order from its standard input, answers with one JSON line and returns at once. Nothing secret is
ever an argument. The supervisor outlives its caller; all that it finds out goes to the attempt's prefix in the bucket.

    DIR/.tpufn/            the agent's own: fence, generation, lock, attempts/<attempt>/ (order, state, spool)
    DIR/jobs/<attempt>/    JOB_DIR, made afresh
    DIR/caches/<key>/      CACHE_ROOT
"""
