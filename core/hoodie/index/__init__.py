"""From record keys to file groups.

`protocol.Index` is what reads, writes, conflict checks and table checks ask; `tables.index_of`
chooses the implementation by the table's configuration: `bucket`, or `lookup` where a key alone
says nothing. What goes in: how an index finds file groups, and what it reads out of their ids. What
does not: which files a group has, and which keys these hold (`filegroup`), and which rows are
written where (`write.tagging`, `write.placement`, `write.inserts`).
"""
