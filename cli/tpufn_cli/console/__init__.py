"""What a person's own machine does around the client: shells, tmux windows, set-up scripts, latency, notices, memory.

Everything here may be called from a worker thread, and nothing prints: the terminal UI, the commands and the MCP server
each show results in their own way.
"""
