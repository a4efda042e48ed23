"""Background jobs: processes that survive a restart of the server."""
