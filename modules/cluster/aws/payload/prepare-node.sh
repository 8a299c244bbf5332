#!/usr/bin/env bash
# Prepare node: runs once on a new node, after cloud-init's own work and before containerd and kubelet start.
# In: HUGE_PAGES (2 MiB each). Writes: sysctl.d. ROOT is a prefix for tests; empty on a node.
set -euo pipefail
file="${ROOT:-}/etc/sysctl.d/90-uplift-hugepages.conf"

# EFA pins memory in huge pages. They are asked for early: memory is still in one piece, and kubelet counts them when it starts.
echo "vm.nr_hugepages = $HUGE_PAGES" >"$file"
sysctl --load "$file"
