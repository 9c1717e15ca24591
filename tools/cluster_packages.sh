#!/usr/bin/env bash
# Sees to what a real node of the test cluster needs of the machine: containerd, runc, CNI plug-ins
# and what they call, and what builds the image of its pods, from Debian. Installs what is missing where it may (root, apt-get), and says
# in one line each what it could not. Nothing of it is started, or runs outside of tests.
set -euo pipefail

PLUGINS=/usr/lib/cni/bridge
# What must be there, and the package that brings it.
NEEDS=(
    "containerd containerd"
    "runc runc"
    "$PLUGINS containernetworking-plugins"
    "iptables iptables"
    "conntrack conntrack"
    "socat socat"
    "ip iproute2"
    "busybox busybox-static"
    "buildah buildah"
    "mmdebstrap mmdebstrap"
)

packages=()
for need in "${NEEDS[@]}"; do
    read -r program package <<<"$need"
    command -v "$program" >/dev/null || packages+=("$package")
done
[ "${#packages[@]}" -eq 0 ] && exit

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    for package in "${packages[@]}"; do
        echo "missing prerequisite: Debian's package $package; found no right or no apt-get to install it" >&2
    done
    echo "Another cluster will do as well: make test-cluster KUBECONFIG=FILE" >&2
    exit 1
fi
echo "==> Installing for the test cluster: ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
