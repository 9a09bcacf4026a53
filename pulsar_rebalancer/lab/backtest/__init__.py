"""Back-tests: the decisions of strategies on a recording, and in a closed loop their effect."""
