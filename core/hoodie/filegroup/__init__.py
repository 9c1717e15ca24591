"""File groups: which slices there are, what a slice holds, and writing new files into one."""
