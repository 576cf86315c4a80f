"""The decisions: `(snapshot, event) -> Decision`. Pure: no I/O, clock, randomness or environment."""
