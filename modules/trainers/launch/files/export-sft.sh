# Automodel counts steps from 0: the recipe's step 40 is folder ..._step_39.
shopt -s nullglob
folders=("$trainer"/epoch_*_step_"$((step - 1))")
[[ "${#folders[@]}" -eq 1 ]] ||
  fail "${#folders[@]} folders $trainer/epoch_*_step_$((step - 1)) (step $step, counted from 0): exactly one is needed"
saved="${folders[0]}"
[[ ! -e "$saved/.incomplete" ]] || fail "$saved was not saved to its end: Automodel's mark .incomplete lies in it"

if [[ "$adapters" -eq 1 ]]; then
  [[ -s "$saved/model/adapter_model.safetensors" ]] || fail "no adapters in $saved/model: adapter_model.safetensors is missing"
  begin_work "exports $saved"
  # On the CPU peft adds in float32 and rounds once. The default dtype would be float16, and the class that the adapters
  # name would leave a vision tower out. The tokenizer is copied below: transformers 5 would write it anew, differently.
  in_image python tools/merge_lora.py --base-model "$start_from" --adapter-path "$saved/model" --output-dir "$partial" \
    --dtype bfloat16 --device cpu --model-class "$model_class" --no-save-tokenizer ||
    broken "tools/merge_lora.py failed: see $log"
else
  [[ -f "$saved/model/consolidated/config.json" ]] || fail "no whole model in $saved/model/consolidated: config.json is missing"
  begin_work "exports $saved"
  cp -RL -- "$saved/model/consolidated" "$partial" || broken "cannot copy $saved/model/consolidated: see $log"
fi
