"""A driver of Spark that writes a DataFrame, to be killed: `frame_writer.py TABLE ROWS`.

It finds the data source by its name, as sessions of users do.
"""

import sys

from hoodie_jobs.spark import session


def main(table_uri: str, count: int) -> None:
    spark = session.open_session("frame", 2, {})
    frame = spark.range(0, count, 1, 4).selectExpr("cast(id as string) id", "id * 2 twice")
    (
        frame.write.format("hoodie")
        .option("hoodie.datasource.write.recordkey.field", "id")
        .option("hoodie.datasource.write.operation", "insert")
        .mode("append")
        .save(table_uri)
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
