"""Frozen values and transition tables. Nothing here does I/O, reads a clock or draws a random number."""
