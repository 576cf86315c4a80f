"""The terminal UI. It never waits for the cloud: what is slow runs on a crew of threads, and the tables are updated in
place from what the crew brings back.
"""
