"""When a bundle is split, where, and what the parts are called."""
