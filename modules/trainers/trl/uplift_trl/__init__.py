"""Training on one machine: TRL and PEFT behind five commands (`python -m uplift_trl --help`).

Takes JSON configurations rendered from a plan, a base model's folder, trajectories, and the environment service's
address; writes metrics, checkpoints and merged models in the folder it is given, and nothing else.
"""
