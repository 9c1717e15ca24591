"""Table services: plan, tasks of one file group each, commit.

`table_service` is the frame of all services that write data files; `compaction` is the first of
them. `rollback` undoes failed writes and removes what they left. What goes in: everything that is
particular to one service. What does not: beginning, completing and aborting an action, which all
actions share (`transaction.lifecycle`).
"""
