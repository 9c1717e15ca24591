"""The contract between the program that starts runs (the operator) and the jobs that it starts.

In: `job_specs`, which name input (`input_sources`), engine (`engine_specs`) and fence
(`attempt_fences`). Out: `job_results`, and the exit code of the result's error
(`hoodie.errors.EXIT_CODES`).

Terms:
    run      what one owner (a Writer, a TableAction) wants done; it may take several attempts
    attempt  one process or pod of a run; numbers grow, and only the newest may commit
    batch    the input of one commit; its id is stored in that commit, so that it is written once

What goes in: values that cross the boundary of the process, and their encoding. What does not: what
a table itself stores (`hoodie.model`), and how a job does its work (`hoodie_jobs`).
"""
