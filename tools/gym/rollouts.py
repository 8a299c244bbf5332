"""Rows of RL data -> rollouts by NeMo Gym itself, called as NeMo-RL calls it (nemo_rl/environments/nemo_gym.py).

In: a folder with server folders in it, Gym configurations, a file of rows. Out: one line of JSON on standard output: what /verify
answered for each row, in the rows' order, and what the agent's /aggregate_metrics made of them. Starts Gym's servers and ends them.

    python rollouts.py FOLDER ROWS.jsonl CONFIG.yaml...
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import nemo_gym.cli.env
from nemo_gym.global_config import GlobalConfigDictParserConfig
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig
from omegaconf import DictConfig, OmegaConf

# Gym's client waits for ever, also for a policy whose test was killed.
LIMIT_SECONDS = 900


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def link_environments(folder: Path, configs: list[str]) -> Path:
    """This Python as the ready environment of every server, where Gym would look for one before it installs one."""
    blocks = [block for config in configs for block in OmegaConf.load(config).values() if OmegaConf.is_dict(block)]
    # Gym 0.7 puts a relay of its own before each agent.
    servers = [Path("environment_servers/legacy_agent")]
    servers += [Path(kind, name) for block in blocks for kind, named in block.items() for name in named]
    for server in servers:
        place = folder / "venvs" / server / ".venv"
        place.parent.mkdir(parents=True)
        place.symlink_to(sys.prefix)
    return folder / "venvs"


async def roll_out(rows: list[dict], head: BaseServerConfig) -> dict:
    helper = RolloutCollectionHelper()
    results: list[dict] = [{} for _ in rows]
    for task in helper.run_examples(examples=rows, head_server_config=head):
        row, result = await task
        results[row["_rowidx"]] = result
    agent = rows[0]["agent_ref"]["name"]
    client = helper.setup_server_client(head)
    answer = await client.post(server_name=agent, url_path="/aggregate_metrics", json={"verify_responses": results})
    return {"results": results, "metrics": json.loads(await answer.read())}


def main() -> None:
    folder, rows_file, *configs = sys.argv[1:]
    # What Gym and its servers print is for the log; the answer is alone on standard output.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.chdir(folder)
    rows = [{**json.loads(line), "_rowidx": index} for index, line in enumerate(Path(rows_file).open())]
    head = {"host": "127.0.0.1", "port": free_port()}
    settings = {
        "config_paths": configs,
        "uv_venv_dir": str(link_environments(Path(folder), configs)),
        "default_host": "127.0.0.1",
        HEAD_SERVER_KEY_NAME: head,
    }
    # For servers that compute with Ray, and simple_agent is none: it would take a minute, and on a busy machine fail.
    nemo_gym.cli.env.initialize_ray = lambda: None
    helper = nemo_gym.cli.env.RunHelper()
    helper.start(
        GlobalConfigDictParserConfig(
            dotenv_path=Path(folder) / "none.yaml",
            initial_global_config_dict=DictConfig(settings),
            skip_load_from_cli=True,
        )
    )
    try:
        work = asyncio.wait_for(roll_out(rows, BaseServerConfig(**head)), LIMIT_SECONDS)
        print(json.dumps(asyncio.run(work)), file=answer, flush=True)
    finally:
        helper.shutdown()


main()
