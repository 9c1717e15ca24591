"""How a change of a table becomes visible, whole or not at all, whoever else is at work."""
