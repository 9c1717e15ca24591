"""The commands, a module each: arguments in, one call of the table, the answer out."""
