"""Programs for developers, and the servers, processes and clients that they and tests start."""
