#!/usr/bin/env bash
# slurmd runs this as root every few minutes (HealthCheckProgram). Drains the node with the reason when a check fails, and takes
# back a drain of its own once all checks pass again. Drains of others stay: their reason does not begin with "uplift health:".
set -uo pipefail

UPLIFT_TOOLS=${UPLIFT_TOOLS:-/opt/uplift}
# shellcheck source=checks.sh
source "$UPLIFT_TOOLS/checks.sh"
node=$(node_name)
ours="uplift health:"

state=$(timeout 20 scontrol show node "$node" 2>/dev/null) || exit 0 # no controller to tell: it looks again
reason=$(sed -nE 's/^ *Reason=(.*)$/\1/p' <<<"$state")

if ! found=$(all_checks); then
  echo "$ours $node: $found"
  grep -qE 'State=[A-Z_+*]*DRAIN' <<<"$state" || timeout 20 scontrol update "nodename=$node" state=drain "reason=$ours $found"
elif [[ "$reason" == "$ours"* ]] && grep -qE 'State=[A-Z_+*]*DRAIN' <<<"$state"; then
  echo "$ours $node: all checks pass again"
  timeout 20 scontrol update "nodename=$node" state=resume
fi
exit 0
