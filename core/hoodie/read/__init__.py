"""Reading a table: planning over file slices, pruning, and the tasks that read one slice each."""
