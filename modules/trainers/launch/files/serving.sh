set -euo pipefail

fail() {
  printf 'uplift: serving %s: %s\n' "$served" "$1" >&2
  exit 78
}
[[ -n "${RUN_DIR:-}" && -d "$RUN_DIR" ]] || fail "RUN_DIR is not set to the run's folder on shared storage"
# vLLM reads it by itself; without a key anybody could ask.
[[ -n "${VLLM_API_KEY:-}" ]] || fail "the secret VLLM_API_KEY is missing"
found="$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)"
[[ "$found" -ge "$gpus" ]] || fail "$found GPUs, the plan needs $gpus"
