"""What the job needs on this machine, looked at piece by piece, each finding with what to do about it."""
