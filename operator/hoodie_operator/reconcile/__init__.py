"""Decisions: what was observed goes in as values, what is to be done comes out as values. Pure.

Here: what to do about an object (`decide`), what to observe next (`observations`), the values that
both take (`world`, `facts`) and give (`effects`). `catalog` and `hearing` have one class each that
an outside holds and changes between decisions; decisions get views of them. Not here: files,
network, time, chance, Kubernetes' documents (`manifests`), and the order in which objects are
decided about.
"""
