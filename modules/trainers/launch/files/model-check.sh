# A model's folder, and the commit that a plan pins or "". A folder's name is no proof of what was put into it: whoever
# downloads a model notes the commit in its file uplift-revision.
check_model() {
  local found
  [[ -f "$1/config.json" ]] || fail "no model in $1: config.json is missing"
  [[ -n "$2" ]] || return 0
  found="$(cat "$1/uplift-revision" 2>/dev/null || true)"
  [[ -n "$found" ]] || fail "$1 may be another revision than the plan's, $2: write the commit that it was downloaded at to $1/uplift-revision"
  [[ "$found" == "$2" ]] || fail "$1 is revision $found by its file uplift-revision, the plan's is $2: download that one"
}
