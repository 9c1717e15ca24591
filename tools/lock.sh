#!/usr/bin/env bash
# Writes requirements/*.txt anew: every version with its hashes, for every platform, naming no host.
# Usage: tools/lock.sh [UV OPTIONS], as `tools/lock.sh --upgrade-package pyarrow`; without options
# what is locked stays as long as it still fits. Needs `uv`, from the path or in $UV.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    echo "==> $1"
    "${UV:-uv}" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
        --output-file "$1" "${@:2}"
}

compile requirements/build.txt requirements/build.in "$@"
compile requirements/dev.txt pyproject.toml --extra operator --extra jobs --extra dynamodb --extra hive --group dev "$@"
compile requirements/hudi-peer.txt requirements/hudi-peer.in "$@"
