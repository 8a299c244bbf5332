# What would otherwise fail after the nodes were paid for.
[[ -f "$config" ]] || fail "$config is missing: uplift plan --out writes it"
found="$(sha256sum <"$config" | cut -d ' ' -f 1)"
[[ "$found" == "$config_sha256" ]] || fail "$config is not the plan's: sha256 $found, planned $config_sha256"
for file in "${needed[@]}"; do
  [[ -s "$RUN_DIR/$file" ]] || fail "$RUN_DIR/$file is missing or empty"
done
check_model "$start_from" "$revision"

# Neither trainer looks whose checkpoints it goes on from (RL#415).
mkdir -p "$trainer"
if [[ -s "$trainer/config.sha256" ]]; then
  found="$(cat "$trainer/config.sha256")"
  [[ "$found" == "$config_sha256" ]] ||
    fail "$trainer holds checkpoints of another configuration (sha256 $found, this is $config_sha256): start a new run"
elif compgen -G "$trainer/step_*" >/dev/null || compgen -G "$trainer/epoch_*" >/dev/null; then
  fail "$trainer holds checkpoints of an unknown configuration: start a new run"
else
  printf '%s\n' "$config_sha256" >"$trainer/config.sha256.new"
  mv "$trainer/config.sha256.new" "$trainer/config.sha256"
fi

# Secrets come by environment or as files of the cluster's secret store; no file of ours holds one.
secret_files="${UPLIFT_SECRETS_DIR:-/run/secrets/uplift}"
for name in "${secrets[@]}"; do
  if [[ -z "${!name:-}" && -r "$secret_files/$name" ]]; then declare -x "$name=$(cat "$secret_files/$name")"; fi
  [[ -n "${!name:-}" ]] || fail "the secret $name is missing: neither in the environment nor in $secret_files"
done

[[ "${SLURM_JOB_NUM_NODES:-0}" -eq "$nodes" ]] ||
  fail "${SLURM_JOB_NUM_NODES:-0} nodes were given, the plan lies on $nodes"
UPLIFT_HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')"
MASTER_ADDR="${UPLIFT_HOSTS%% *}"
export UPLIFT_HOSTS MASTER_ADDR
srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 bash "$RUN_DIR/slurm/node-check.sh" ||
  fail "a node is not fit for the job: the lines above say why"

logs="$RUN_DIR/logs/$job"
mkdir -p "$logs"
# Our key beside the JobId of the moment: a restarted controller may give that JobId to another job.
printf '{"key":"%s","slurmJobId":"%s","restart":%s,"startedAt":"%s"}\n' "$UPLIFT_JOB_KEY" "${SLURM_JOB_ID:-}" \
  "${SLURM_RESTART_COUNT:-0}" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$logs/starts.jsonl"
log="${UPLIFT_LOG:-$logs/batch-${SLURM_JOB_ID:-0}.log}"
echo "uplift: $UPLIFT_JOB_KEY: all start checks passed; goes on in $log"
step_before="$(newest_step)"
# Slurm's output stays open as 3 for the one sentence at the end; UPLIFT_LOG says that it is the log itself.
if [[ -n "${UPLIFT_LOG:-}" ]]; then exec 3>/dev/null; else exec 3>&2; fi
exec >>"$log" 2>&1

# The image as a file, if it was imported to shared storage: every node then maps one file.
if [[ -n "$squash_file" && -r "$squash_file" ]]; then container="$squash_file"; fi
