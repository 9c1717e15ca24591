"""Archiving: old instants are moved out of the active timeline."""
