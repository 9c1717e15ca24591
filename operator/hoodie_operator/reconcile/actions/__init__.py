"""What each type of TableAction is, a module a type; `registry` is the table of all.

Here: what a run of the type does, when the action is done, and which other runs of its table it
waits for. Not here: what all types share, which is in `table_actions`, and when a policy creates an
action, which is in the policy. A new type is a module with a class that implements
`services.ActionService`, a line in `registry`, and its parameters in `api/table_action.py`.
"""
