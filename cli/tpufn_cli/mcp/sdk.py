"""The one module that knows which line of the MCP SDK is installed: 1.x calls its server FastMCP, 2.x MCPServer."""

from importlib import import_module
from typing import Any

from tpufn.domain.errors import InputError

MISSING = "the MCP server needs the package mcp: install it with `pip install 'tpufn[mcp]'`"


def load() -> tuple[Any, Any, Any]:
    """(server class, tool error class, annotations class). Raises InputError where no SDK is installed."""
    try:
        types = import_module("mcp.types")
    except ImportError:
        raise InputError(MISSING) from None
    try:
        server = import_module("mcp.server.mcpserver").MCPServer
        error = import_module("mcp.server.mcpserver.exceptions").ToolError
    except ImportError:
        server = import_module("mcp.server.fastmcp").FastMCP
        error = import_module("mcp.server.fastmcp.exceptions").ToolError
    return server, error, types.ToolAnnotations
