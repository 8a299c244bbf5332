#!/usr/bin/env bash
# Set-up of a plain Linux machine: what is missing is installed, the rest is left alone; run again, it only looks (under 2 s).
# In: this clone's lock files. Out: node_modules here, and under ~/.cache/uplift (or $UPLIFT_CACHE) the trainers' Python,
# uv and Pulumi. Asks nothing. Root is needed for apt packages only. Interrupted, it does the unfinished part again.
#
#   tools/setup.sh [--for-tests]     --for-tests adds Chromium, a Postgres server and Slurm, which only the tests use
set -euo pipefail

UV_VERSION=0.13.9
NODE_LEAST=20.12
PYTHON_LEAST=3.11 # what the lock files are made for
PULUMI_LEAST_MINOR=200

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${UPLIFT_CACHE:-$HOME/.cache/uplift}
for_tests=no
for argument in "$@"; do
  case $argument in
    --for-tests) for_tests=yes ;;
    --help | -h) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "tools/setup.sh: $argument is not an option. Allowed: --for-tests, --help." >&2; exit 2 ;;
  esac
done

me=setup
say() { echo "setup: $*"; }
. "$root/tools/steps.sh"
# at_least 20.2.1 20.12 → false
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

node_check() {
  have node && have npm || fail "Node.js is missing." "Install Node.js $NODE_LEAST or newer (with npm), then run this again."
  local found
  found=$(node -p process.versions.node)
  at_least "$found" $NODE_LEAST || fail "Node.js $found is too old." "Install Node.js $NODE_LEAST or newer, then run this again."
}

apt_packages() {
  local missing=()
  have bwrap || { missing+=(bubblewrap); say "bubblewrap is missing: every attempt at a task acts in its own sandbox"; }
  have git || { missing+=(git); say "git is missing: the tasks are real repositories, and runs record the commit they were made from"; }
  # The system's own, whatever else is on PATH: a sandbox sees /usr and nothing more.
  [ -x /usr/bin/python3 ] || { missing+=(python3); say "python3 is missing: sandboxes act and grade with it"; }
  if [ ! -x "$uv" ] && ! { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }; then
    missing+=(python3-venv)
    say "python3-venv is missing: it fetches uv, which makes the trainers' environment"
  fi
  if [ $for_tests = yes ] && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
    missing+=(postgresql)
    say "postgresql is missing: tests start servers of their own"
    # The package would make and start one for the whole machine.
    if [ "$(id -u)" -eq 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
      mkdir -p /etc/postgresql-common
      echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
  fi
  if [ $for_tests = yes ]; then
    local part
    for part in slurm-wlm=/usr/sbin/slurmctld slurmrestd=/usr/sbin/slurmrestd munge=/usr/sbin/munged \
      'slurm-wlm-jwt-plugin=/usr/lib/*/slurm*/auth_jwt.so'; do
      compgen -G "${part#*=}" >/dev/null && continue
      missing+=("${part%%=*}")
      say "${part%%=*} is missing: tests start Slurm clusters of their own"
    done
  fi
  if [ $for_tests = yes ] && ! { have chromium || have chromium-browser || have google-chrome; }; then
    missing+=(chromium)
    say "chromium is missing: tests look at the dashboard in it"
  fi
  [ ${#missing[@]} -eq 0 ] && return
  have apt-get || fail "There is no apt-get here." "Install these with your package manager, then run this again: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || fail "Only root may install packages. Run this, then run the set-up again:" \
    "  sudo apt-get install -y --no-install-recommends ${missing[*]}"
  must apt-update apt-get update
  # munge and Slurm would start for the whole machine, munge again at every boot (Slurm does nothing without a slurm.conf).
  # A machine with a policy of its own keeps it.
  local policy=/usr/sbin/policy-rc.d
  if [[ " ${missing[*]} " =~ \ (slurm|munge) ]] && [ ! -e $policy ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  must apt-install env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  [[ " ${missing[*]} " != *" munge "* ]] || must munge-at-boot update-rc.d munge disable
}

sandbox_check() {
  local said
  said=$(bwrap --unshare-all --die-with-parent --ro-bind / / --proc /proc --dev /dev true 2>&1) && return
  fail "bubblewrap cannot make a sandbox here: $said" \
    "Sandboxes need unprivileged user namespaces. As root, where the kernel has these switches:" \
    "  sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000" \
    "  sysctl kernel.apparmor_restrict_unprivileged_userns=0" \
    "In a container, start it so that it may make user namespaces. Then run this again."
}

node_packages() {
  local mark="$root/node_modules/.package-lock.json"
  [ -f "$mark" ] && [ ! "$root/package-lock.json" -nt "$mark" ] && return
  say "npm packages of package-lock.json into node_modules: the product itself"
  must npm-ci npm ci --prefix "$root" --no-audit --no-fund
  touch "$mark"
}

uv_tool() {
  [ -x "$uv" ] && return
  say "uv $UV_VERSION: makes the trainers' environment exactly as its lock file says"
  rm -rf "$uv_folder" "$uv_folder.partial"
  must uv-venv python3 -m venv "$uv_folder.partial"
  must uv-install "$uv_folder.partial/bin/python" -m pip install --disable-pip-version-check "uv==$UV_VERSION"
  mv "$uv_folder.partial" "$uv_folder"
}

# The first Python from 3.11 up to 3.13; else uv is asked to fetch 3.11.
python_for_trainers() {
  local candidate
  for candidate in python3.11 python3 python3.12 python3.13; do
    "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || continue
    command -v "$candidate"
    return
  done
  echo $PYTHON_LEAST
}

# Whether uv's log says that a package of the lock does not exist for this machine: no wheel or version fits, or it cannot
# be built. A network or disk that failed says nothing of the machine, also when it failed inside a build.
fits_not_here() { # LOG
  grep -qE "No solution found when resolving|doesn't have a source distribution or wheel|Failed to build" "$1" &&
    ! grep -qE 'Failed to (fetch|download)|error sending request|network was disabled|timed out|No space left' "$1"
}

trainers_environment() {
  local trl="$root/modules/trainers/trl" python lock started=$SECONDS
  [ -f "$trl/requirements.lock" ] || fail "modules/trainers/trl/requirements.lock is missing: this clone is not complete."
  lock=$(sha256sum "$trl/requirements.lock")
  local folder="$cache/python-${lock:0:12}"
  if [ -f "$folder/.complete" ] && "$folder/bin/python" -c '' 2>/dev/null; then
    [ "$(cat "$folder/.complete")" = full ] ||
      say "the light server is in use, since vLLM did not fit this machine; to try again: rm '$folder/.complete', then run this"
    return
  fi
  python=$(python_for_trainers)
  say "Python packages of modules/trainers/trl/requirements.lock: trainers and server (5.5 GB, under $cache)"
  rm -rf "$folder"
  if ! try python-venv "$uv" venv --no-config --python "$python" "$folder"; then
    fail "No Python $PYTHON_LEAST to 3.13 is here, and uv could not fetch one (see $log)." "Install one, then run this again."
  fi
  local kind=full
  if ! try python-packages "$uv" pip sync --require-hashes --python "$folder/bin/python" "$trl/requirements.lock"; then
    fits_not_here "$log" || give_up python-packages
    say "  vLLM cannot be installed here (see $log): the light server will be used instead"
    kind=light
    must python-packages-light "$uv" pip sync --require-hashes --python "$folder/bin/python" "$trl/requirements-light.lock"
  fi
  must python-check env OMP_NUM_THREADS=1 "$folder/bin/python" -c 'import torch, transformers, trl, peft'
  echo $kind >"$folder/.complete"
  say "  done in $(elapsed $started)"
}

pulumi_in_range() { # PATH_TO_PULUMI
  local version
  version=$(PULUMI_SKIP_UPDATE_CHECK=1 "$1" version 2>/dev/null) || return
  at_least "${version#v}" 3.$PULUMI_LEAST_MINOR && ! at_least "${version#v}" 4
}

pulumi_engine() {
  local version cached started=$SECONDS
  version=$(sed -n 's#^require github.com/pulumi/pulumi/pkg/v3 v##p' "$root/tools/pulumi-cli/go.mod")
  cached="$cache/bin/pulumi-$version"
  mkdir -p "$cache/bin"
  cmp -s "$root/tools/pulumi-resource-pulumi-nodejs" "$cache/bin/pulumi-resource-pulumi-nodejs" ||
    install -m 755 "$root/tools/pulumi-resource-pulumi-nodejs" "$cache/bin/"
  if have pulumi && pulumi_in_range pulumi; then return; fi
  if [ -x "$cached" ] && pulumi_in_range "$cached"; then return; fi
  say "Pulumi $version: makes, repairs and removes services; first Pulumi's own installer (at most 90 s)"
  local installed="$cache/pulumi-$version"
  if try pulumi-install timeout --kill-after 5 90 node "$root/tools/pulumi-install.mjs" "$version" "$installed"; then
    ln -sfn "$installed/bin/pulumi" "$cached"
    return
  fi
  rm -rf "$installed"
  have go || fail "Pulumi's installer cannot be reached from here, and there is no Go to build Pulumi with." \
    "Put a pulumi from 3.$PULUMI_LEAST_MINOR up to 4 on PATH, or install Go 1.21 or newer; then run this again."
  say "  it cannot be reached: Pulumi is built from its Go module (about five minutes on two cores, once)"
  must pulumi-build go build -C "$root/tools/pulumi-cli" -o "$cached.partial" \
    -ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v$version" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi
  mv "$cached.partial" "$cached"
  say "  done in $(elapsed $started)"
}

umask 022
mkdir -p "$cache"
have flock || fail "flock is missing: install util-linux, then run this again."
exec 9>"$cache/setup.lock"
flock --nonblock 9 || { say "another set-up runs; waiting for it"; flock 9; }

uv_folder="$cache/uv-$UV_VERSION"
uv="$uv_folder/bin/uv"
node_check
apt_packages
sandbox_check
node_packages
uv_tool
trainers_environment
pulumi_engine
say "ready"
