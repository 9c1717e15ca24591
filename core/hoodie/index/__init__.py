"""From record keys to file groups.

`protocol.Index` is what reads, writes, conflict checks and table checks ask; `tables.index_of`
chooses the implementation by the table's configuration. `bucket` is the only one so far. What goes
in: how an index finds file groups, and what it reads out of their ids. What does not: which files a
group has (`filegroup`), and which rows are written where (`write.placement`).
"""
