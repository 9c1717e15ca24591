#!/usr/bin/env bash
# Writes requirements/*.txt anew: every version with its hashes, naming no host; for every platform,
# but the image's.
# Usage: tools/lock.sh [UV OPTIONS], as `tools/lock.sh --upgrade-package pyarrow`; without options
# what is locked stays as long as it still fits. Needs `uv`, from the path or in $UV.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    echo "==> $1"
    "${UV:-uv}" pip compile --quiet --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
        --output-file "$1" "${@:2}"
}

compile requirements/build.txt requirements/build.in --universal "$@"
compile requirements/dev.txt pyproject.toml --extra operator --extra jobs --extra dynamodb --extra hive \
    --extra iceberg --group dev --universal "$@"
# Of what the tests run with, what runs in the image: Debian 12 with its Python.
compile requirements/image.txt pyproject.toml --extra operator --extra jobs --extra dynamodb --extra hive \
    --extra iceberg --constraint requirements/dev.txt --python-platform x86_64-manylinux_2_28 "$@"
compile requirements/hudi-peer.txt requirements/hudi-peer.in --universal "$@"
# What installs must be what all environments install with.
compile requirements/site.txt requirements/site.in --constraint requirements/build.txt --universal "$@"
compile requirements/lakes-peer.txt requirements/lakes-peer.in --constraint requirements/build.txt --universal "$@"
compile requirements/duckdb-peer.txt requirements/duckdb-peer.in --universal "$@"
# Above the environment of the tests: what that has, they share.
shared=(duckdb numpy pandas py4j pyspark)
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
for name in "${shared[@]}"; do
    sed -n "s/^\($name==[^\\\\]*[^ \\\\]\).*/\1/p" requirements/dev.txt
done >"$constraints"
compile requirements/engines.txt requirements/engines.in --constraint "$constraints" \
    "${shared[@]/#/--no-emit-package=}" --universal "$@"
