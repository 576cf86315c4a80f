"""How values look: words, JSON, notes as lines, rich tables, the live view. Nothing here asks a client for anything."""
