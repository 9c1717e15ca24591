"""What concerns a table as a whole: checking and adopting it, breaking its lock."""
