#!/usr/bin/env bash
# A small Python environment for a test or a bench: nemo-automodel's own loader, OmegaConf, NeMo Gym.
# In: a folder of this project with a requirements.lock, and where the packages ask for more than Python 3.11 a file
# python-version: the least that they say they need (any Python of that minor version is taken). Out: an environment under
# ~/.cache/uplift (or $UPLIFT_CACHE), named by the lock's digest, and the path of its Python on standard output. Run again, it
# only looks; interrupted, it starts over.
#
#   python=$(tools/python-env.sh tools/automodel) && RUN_DIR=/runs/x "$python" tools/automodel/load_config.py FILE.yaml
set -euo pipefail

[ $# -eq 1 ] && [ -f "$1/requirements.lock" ] || { echo "python-env: give a folder with a requirements.lock." >&2; exit 2; }
requirements="$1/requirements.lock"
name=$(basename "$1")
python_version=$(cat "$1/python-version" 2>/dev/null || true)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${UPLIFT_CACHE:-$HOME/.cache/uplift}
# One version of uv for the project: what tools/setup.sh installs.
uv_version=$(sed -n 's/^UV_VERSION=//p' "$here/setup.sh")
lock=$(sha256sum "$requirements")
folder="$cache/$name-${lock:0:12}"
python="$folder/bin/python"
log="$cache/logs/$name.log"

say() { echo "$name: $*" >&2; }
fail() { printf "$name: %s\n" "$@" >&2; exit 1; }
give_up() {
  tail -n 20 "$log" | sed 's/^/  | /' >&2
  fail "$1 failed (the log is $log); correct the cause and run it again."
}
# Addresses of registries stay out of the log.
quiet() { "$@" 2>&1 | sed -uE 's#(https?://)[^/ ,)"'\'']+#\1…#g' >>"$log"; }
ready() { [ -f "$folder/.complete" ] && "$python" -c '' 2>/dev/null; }

# The first Python from 3.11 up to 3.13; else uv is asked to fetch 3.11. With a file python-version, the first of that minor
# version, also one that pyenv has and is not told to use.
find_python() {
  local candidate minor=${python_version%.*}
  if [ -n "$python_version" ]; then
    for candidate in "python$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$minor".*/bin/python; do
      "$candidate" -c '' 2>/dev/null || continue
      command -v "$candidate"
      return
    done
    echo "$minor"
    return
  fi
  for candidate in python3.11 python3 python3.12 python3.13; do
    "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || continue
    command -v "$candidate"
    return
  done
  echo 3.11
}

ready && { echo "$python"; exit; }
umask 022
mkdir -p "$cache/logs"
command -v flock >/dev/null || fail "flock is missing: install util-linux, then run this again."
# The lock of tools/setup.sh: both may make the folder of uv.
exec 9>"$cache/setup.lock"
flock 9
ready && { echo "$python"; exit; }
: >"$log"

uv="$cache/uv-$uv_version/bin/uv"
if [ ! -x "$uv" ]; then
  say "uv $uv_version: makes the environment exactly as its lock file says"
  rm -rf "$cache/uv-$uv_version" "$cache/uv-$uv_version.partial"
  quiet python3 -m venv "$cache/uv-$uv_version.partial" || give_up "python3 -m venv"
  quiet "$cache/uv-$uv_version.partial/bin/python" -m pip install --disable-pip-version-check "uv==$uv_version" || give_up "pip install uv"
  mv "$cache/uv-$uv_version.partial" "$cache/uv-$uv_version"
fi

say "the packages of $requirements"
rm -rf "$folder"
quiet "$uv" venv --no-config --python "$(find_python)" "$folder" || give_up "uv venv"
quiet "$uv" pip sync --require-hashes --python "$python" ${python_version:+--python-version "$python_version"} "$requirements" || give_up "uv pip sync"
touch "$folder/.complete"
echo "$python"
