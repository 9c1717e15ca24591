"""What `table.Table` offers to people: scans, writes, datasets, looks inside and table services.

Each takes texts, Arrow, data frames and keywords, and makes of them the values that the layers
below work with; none decides anything about the table itself.
"""
