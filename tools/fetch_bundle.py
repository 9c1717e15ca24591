"""Let Spark fetch a bundle of Apache Hudi, and say what it got; for tools/setup_peer.sh.

Usage: fetch_bundle.py COORDINATES FOLDER. Spark's own resolver goes wherever the machine is
configured to fetch from, and leaves the jars in FOLDER/jars.
"""

import sys

from pyspark.sql import SparkSession

coordinates, folder = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", coordinates)
    .config("spark.jars.ivy", folder)
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
layout = session._jvm.org.apache.hudi.common.table.timeline.versioning.TimelineLayoutVersion
print(f"Spark {session.version} finds {coordinates}, timeline layout {layout.CURR_VERSION}")
session.stop()
