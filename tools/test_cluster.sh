#!/usr/bin/env bash
# Runs tests/cluster: beside a cluster of its own in private namespaces, or on the one of a given
# kubeconfig. Usage: tools/test_cluster.sh [PYTEST ARGUMENTS]; TEST_KUBECONFIG names the file.
set -euo pipefail
cd "$(dirname "$0")/.."

export PYTHONPATH=$PWD/tests${PYTHONPATH:+:$PYTHONPATH}
# Tests wait a lot, so three at a time; one that has to be alone waits for the others, and they for it.
options=(--numprocesses=3 --dist=loadgroup --timeout=1200)
tests=(.venv/bin/python -m pytest "${options[@]}" tests/cluster "$@")

# Before anything is private: what is missing of both has to be fetched.
.venv/bin/python -m support.kube.binaries >/dev/null
if [ -n "${TEST_KUBECONFIG:-}" ]; then
    .venv/bin/python tools/image.py >/dev/null
    echo "==> Testing on the cluster of $TEST_KUBECONFIG"
    HUDI_TEST_KUBECONFIG=$TEST_KUBECONFIG exec "${tests[@]}"
fi
tools/cluster_packages.sh
.venv/bin/python tools/image.py >/dev/null
echo "==> Testing beside a cluster in private namespaces; its logs: build/test-cluster/logs"
exec .venv/bin/python -m support.kube.isolation "${tests[@]}"
