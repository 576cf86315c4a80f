"""What a command does while jobs run: the loop, what it tells, and the demo's director."""
