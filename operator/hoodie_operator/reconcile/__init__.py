"""Decisions: what is seen goes in as values, what is to be done comes out as values. Pure."""
