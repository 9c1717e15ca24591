"""The timeline: which instants a table has, in which states, and how they move between them."""
