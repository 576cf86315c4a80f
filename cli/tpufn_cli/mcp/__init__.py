"""The MCP server: the same acts as the command line's, for an assistant, over standard input and output."""
