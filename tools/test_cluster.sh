#!/usr/bin/env bash
# Runs tests/cluster: beside a cluster of its own in private namespaces, or on the one of a given
# kubeconfig. Usage: tools/test_cluster.sh [PYTEST ARGUMENTS]; TEST_KUBECONFIG names the file.
set -euo pipefail
cd "$(dirname "$0")/.."

export PYTHONPATH=$PWD/tests${PYTHONPATH:+:$PYTHONPATH}
# Tests wait a lot, so three at a time; one that has to be alone waits for the others, and they for it.
options=(--numprocesses=3 --timeout=1200 --durations=25 --durations-min=5)
tests=(.venv/bin/python -m pytest "${options[@]}" tests/cluster "$@")

# Before anything is private: what is missing of both has to be fetched. Helm and kwok, which some tests
# need, are built beside the rest, in a group of processes that ends with the tests, whoever ends them.
.venv/bin/python -m support.kube.binaries kube pause >/dev/null
set -m
setpriv --pdeathsig TERM -- nice -n 10 bash -c '
    trap "trap - TERM; kill -TERM 0" TERM
    .venv/bin/python -m support.kube.binaries >/dev/null &
    wait' &
set +m
[ -n "${TEST_KUBECONFIG:-}" ] || tools/cluster_packages.sh
.venv/bin/python tools/image.py >/dev/null
if [ -n "${TEST_KUBECONFIG:-}" ]; then
    echo "==> Testing on the cluster of $TEST_KUBECONFIG"
    HUDI_TEST_KUBECONFIG=$TEST_KUBECONFIG exec "${tests[@]}"
fi
echo "==> Testing beside a cluster in private namespaces; its logs: build/test-cluster/logs"
exec .venv/bin/python -m support.kube.isolation "${tests[@]}"
