#!/usr/bin/env bash
# Checks what this project expects of a machine, and says in one line each what is missing.
# Usage: tools/prerequisites.sh. Prints the path of the Python to use; exits with 1 if anything is
# missing. PYTHON and JAVA_HOME choose among several.
set -euo pipefail
missing=0

report() {
    echo "missing prerequisite: $1; found $2" >&2
    missing=1
}

# A version manager's shim may stand on the path and still not run: ask each what it is.
python_version() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

find_python() {
    local candidate version found=""
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        version=$(python_version "$candidate") || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            python=$(command -v "$candidate")
            if ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
                report "the modules venv and ensurepip of Python (package python3-venv on Debian)" \
                    "Python $version at $python without them"
            fi
            return
        fi
        found="${found:-Python $version at $(command -v "$candidate")}"
    done
    report "Python 3.11 or newer" "${found:-none${PYTHON:+ at PYTHON=$PYTHON}}"
}

find_java() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java version major
    # The answer is `openjdk version "17.0.15" ...`, and `"1.8.0_402"` for the old ones.
    if ! version=$("$java" -version 2>&1); then
        report "Java 17 or newer" "none${JAVA_HOME:+ at JAVA_HOME=$JAVA_HOME}"
        return
    fi
    version=$(sed -n 's/.*version "\([^"]*\)".*/\1/p' <<<"$version" | head -n 1)
    major=$(sed 's/^1\.//; s/[^0-9].*//' <<<"$version")
    if [ "${major:-0}" -lt 17 ]; then
        report "Java 17 or newer" "Java ${version:-of an unknown version} at $(command -v "$java")"
    fi
}

command -v make >/dev/null || report "make" "none"
find_python
find_java
[ "$missing" -eq 0 ] || exit 1
echo "$python"
