#!/usr/bin/env bash
# Fills .peers/NAME/.venv with the packages of one lock, requirements/LOCK.txt.
# Does nothing when that was already done. Usage: tools/setup_environment.sh NAME LOCK WHAT
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/environment.sh

name=$1 lock=requirements/$2.txt what=$3
python=$(tools/prerequisites.sh)
wanted=$(fingerprint requirements/build.txt "$lock")
if is_filled ".peers/$name/.venv" "$wanted"; then
    echo "==> .peers/$name is up to date"
    exit
fi

echo "==> Setting up .peers/$name: $what"
fill ".peers/$name/.venv" "$lock"
mark_filled ".peers/$name/.venv" "$wanted"
echo "==> .peers/$name is ready"
