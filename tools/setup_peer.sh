#!/usr/bin/env bash
# Fills .peers/hudi/ with Apache Hudi on Spark, the judge of the tables we write and our peer in
# benchmarks: .peers/hudi/.venv (Spark 3.5) and .peers/hudi/ivy/jars (the bundle).
# And .peers/duckdb/.venv with DuckDB and its extension for Iceberg, which reads mirrors.
# Does nothing when that was already done. `setup_peer.sh 1.0.2` fetches the bundle of another release
# besides, into .peers/hudi-1.0.2/ivy/jars.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/environment.sh

NAME=org.apache.hudi:hudi-spark3.5-bundle_2.12
BUNDLE=$NAME:1.2.0

# fetch BUNDLE FOLDER
fetch() {
    echo "==> Fetching $1"
    # A Spark that the machine has beside ours must not be taken instead.
    env -u SPARK_HOME -u PYSPARK_SUBMIT_ARGS \
        .peers/hudi/.venv/bin/python tools/fetch_bundle.py "$1" "$PWD/$2/ivy"
}

if [ $# -gt 0 ]; then
    tools/setup_peer.sh
    other=.peers/hudi-$1
    compgen -G "$other/ivy/jars/*-bundle_*-$1.jar" >/dev/null || fetch "$NAME:$1" "$other"
    echo "==> $other is ready"
    exit
fi

python=$(tools/prerequisites.sh)
wanted=$(fingerprint requirements/build.txt requirements/duckdb-peer.txt)
if ! is_filled .peers/duckdb/.venv "$wanted"; then
    echo "==> Setting up .peers/duckdb"
    mkdir -p .peers/duckdb
    fill .peers/duckdb/.venv requirements/duckdb-peer.txt
    mark_filled .peers/duckdb/.venv "$wanted"
fi

wanted="$BUNDLE $(fingerprint requirements/build.txt requirements/hudi-peer.txt)"
if is_filled .peers/hudi/.venv "$wanted"; then
    echo "==> .peers/hudi is up to date"
    exit
fi

echo "==> Setting up .peers/hudi: Spark 3.5 (0.4 GB to fetch the first time), then $BUNDLE"
fill .peers/hudi/.venv requirements/hudi-peer.txt
fetch "$BUNDLE" .peers/hudi
# A bundle of another version, fetched before, must not get onto a class path by a pattern.
find .peers/hudi/ivy/jars -name "org.apache.hudi_*" ! -name "*-${BUNDLE##*:}.jar" -delete
mark_filled .peers/hudi/.venv "$wanted"
echo "==> .peers/hudi is ready"
