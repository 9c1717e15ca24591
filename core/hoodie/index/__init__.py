"""From record keys to file groups."""
