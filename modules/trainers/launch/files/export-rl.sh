saved="$trainer/step_$step"
weights="$saved/policy/weights/iter_0000000"
[[ -f "$saved/config.yaml" && -f "$weights/metadata.json" ]] ||
  fail "no checkpoint of step $step in $saved: config.yaml or policy/weights/iter_0000000/metadata.json is missing"

# The driver's environment lacks Megatron; the worker's has it. uv would install it where the image was built without.
in_megatron() {
  # shellcheck disable=SC2016 # for the shell inside the image
  in_image bash -c 'venv="${NEMO_RL_VENV_DIR:-/opt/ray_venvs}/nemo_rl.models.policy.workers.megatron_policy_worker.MegatronPolicyWorker"
    if [[ -x "$venv/bin/python" ]]; then exec "$venv/bin/python" "$@"; else exec uv run --extra mcore python "$@"; fi' export "$@"
}

if [[ "$adapters" -eq 1 ]]; then
  # Where training converted the start model to; the name is NeMo-RL's (nemo_rl/models/megatron/setup.py).
  base="$NRL_MEGATRON_CHECKPOINT_DIR/model_${start_from//\//_}$overrides_mark/iter_0000000"
  [[ -d "$base" ]] || fail "the start model as Megatron's is missing: training converted it to $base"
  begin_work "exports $saved"
  in_megatron examples/converters/convert_lora_to_hf.py --base-ckpt "$base" --adapter-ckpt "$weights" \
    --hf-model-name "$start_from" --hf-ckpt-path "$partial" || broken "convert_lora_to_hf.py failed: see $log"
else
  begin_work "exports $saved"
  # Not strict: a tensor that Megatron does not have would end it, or take its whole shard along; ours is the check.
  in_megatron examples/converters/convert_megatron_to_hf.py --config "$saved/config.yaml" --hf-model-name "$start_from" \
    --megatron-ckpt-path "$weights" --hf-ckpt-path "$partial" --no-strict ||
    broken "convert_megatron_to_hf.py failed: see $log"
fi
