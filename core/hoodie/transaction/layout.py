"""Where transactions keep their files, below a table's root.

    .hoodie/.heartbeat/{requested time}           a writer's or executor's sign of life
    .hoodie/.temp/{requested time}/{partition}/   markers of data files
    .hoodie/.hudi_operator/attempts/{author}      the newest attempt of a writer or action
    .hoodie/.hudi_operator/builds/{requested time}  how far the build of an index is
    .hoodie/.hudi_operator/clock                  touched to learn the store's time

The first two are Apache Hudi's. The last directory is ours: Hudi reads below `.hoodie` only names
that it knows, and passes by the whole of it when it looks for partitions.
"""

HEARTBEATS = ".hoodie/.heartbeat"
MARKERS = ".hoodie/.temp"
ATTEMPTS = ".hoodie/.hudi_operator/attempts"
BUILDS = ".hoodie/.hudi_operator/builds"
PROBE = ".hoodie/.hudi_operator/clock"
