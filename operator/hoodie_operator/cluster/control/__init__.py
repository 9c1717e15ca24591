"""The control loop: which object is due, what is decided about it, and carrying that out.

Here: the event handlers, the work queue, back-off, the one record of state per object
(`object_states`), observation, actions, statuses and events, which follow from decisions alone.
Not here: what a decision is (`reconcile`), the cache (`informer`), and how storages, locks and pods
are reached, which is behind `ports`. No part keeps a dictionary by object of its own: what is
remembered of an object is a field of its record.
"""
