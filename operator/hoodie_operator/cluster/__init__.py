"""The operator in a cluster, in rooms; each may use those before it.

`client` asks the API server. `informer` knows what is in the cluster. `control` decides about one
object at a time and carries it out; `ports` in it says what it needs of others, which `adapters`
are: runs as Jobs, observers, lock servers, fences. `process` puts a process together: who leads,
from start to end. `health` and `logs` are for all of them.
"""
