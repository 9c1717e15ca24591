"""The metadata table as a whole: made, rebuilt, dropped, and kept small."""
