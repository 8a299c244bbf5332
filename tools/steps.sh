# Steps of a script that installs or builds: sourced by setup.sh and engines.sh. Each runs with its output in a log.
# In: $me, the script's name before its lines; $cache, the folder of logs; a function `say` that prints a line.
# Out: fail, have, elapsed, try, must, give_up; $log of the step that ran last, $worker while one runs.

fail() { printf "$me: %s\n" "$@" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
elapsed() { echo "$((SECONDS - $1)) s"; }

# try NAME COMMAND…: runs it, a sign of life every 30 s. Addresses of registries stay out of the log. With own_group=yes all that it
# starts is a process group of its own, so that the script's trap can end the whole of it; else it ends with the script's group.
try() {
  local name=$1 started=$SECONDS ticks=0 status=0
  shift
  log="$cache/logs/$name.log"
  mkdir -p "$cache/logs"
  [ "${own_group:-no}" = no ] || set -m
  ("$@" 2>&1 </dev/null | sed -uE -e 's#(https?://)[^/ ,)"'\'']+#\1…#g' -e 's#(dial tcp|lookup) [^ ]+( on [^ ]+)?#\1 …:#' >"$log") &
  worker=$!
  set +m
  while sleep 0.2; kill -0 $worker 2>/dev/null; do
    if [ $(((SECONDS - started) / 30)) -gt $ticks ]; then
      ticks=$(((SECONDS - started) / 30))
      say "  … $name still runs ($(elapsed $started))"
    fi
  done
  wait $worker || status=$?
  worker=
  return $status
}

# must NAME COMMAND…: the same, and ends the script with the log's end when it fails.
must() { try "$@" || give_up "$1"; }
give_up() {
  echo "$me: $1 failed; the end of $log:" >&2
  tail -n 20 "$log" | sed 's/^/  | /' >&2
  fail "correct the cause and run it again: what is done already is kept."
}
