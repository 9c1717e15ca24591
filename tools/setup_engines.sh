#!/usr/bin/env bash
# Fills .peers/engines/ with engines that read and write our tables: Daft, Dask, dbt, Ibis, Ray, and
# what a client of Spark Connect needs. Packages that they share with .venv are those of .venv, but
# pyarrow, of which Daft wants an older one. Does nothing when that was already done.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/environment.sh

python=$(tools/prerequisites.sh)
wanted=$(fingerprint requirements/build.txt requirements/engines.txt)
if is_filled .peers/engines "$wanted"; then
    echo "==> .peers/engines is up to date"
    exit
fi

echo "==> Setting up .peers/engines: Daft, Dask, dbt, Ibis, Ray (0.3 GB to fetch the first time)"
fill .peers/engines requirements/engines.txt --no-deps --quiet
# Ours come first: a line of a .pth file is added to the end of the path.
packages=$(.peers/engines/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
below=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$below" >"$packages/below.pth"
mark_filled .peers/engines "$wanted"
echo "==> .peers/engines is ready"
