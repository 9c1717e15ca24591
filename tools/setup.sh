#!/usr/bin/env bash
# Fills .venv/ with exactly what the locks say and installs the project editable.
# Does nothing when .venv/ was already filled from the same locks.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/environment.sh

python=$(tools/prerequisites.sh)
# Of pyproject.toml only what stands above the settings of the tools decides what is installed.
wanted=$(fingerprint <(sed '/^\[tool\.pytest/,$d' pyproject.toml) requirements/build.txt requirements/dev.txt)
if is_filled .venv "$wanted"; then
    echo "==> .venv is up to date"
    exit
fi

echo "==> Setting up .venv with Python $("$python" -V | cut -d' ' -f2): the locked packages (0.5 GB to fetch the first time), then the project"
fill .venv requirements/dev.txt
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
mark_filled .venv "$wanted"
echo "==> .venv is ready: .venv/bin/hoodie, .venv/bin/hudi-operator"
