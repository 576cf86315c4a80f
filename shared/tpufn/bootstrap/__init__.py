"""Settings -> ports: the only package that names an adapter. One module a mode, so that each imports only its own."""
