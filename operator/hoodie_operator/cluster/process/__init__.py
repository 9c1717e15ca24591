"""One operator process: the lease that makes it lead, its parts put together, its end."""
