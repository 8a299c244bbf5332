"""A test's environment: real repositories, the family's real tools and grader, but no sandbox and no HTTP.

Reads one JSON request a line, answers one JSON line each; test-environment.ts is the other end. Never used outside
tests: the environment service is the only way to touch a task.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "repo-chores"))
import grader  # noqa: E402
import tools  # noqa: E402

os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="t", GIT_COMMITTER_NAME="t",
                  GIT_AUTHOR_EMAIL="t@example.invalid", GIT_COMMITTER_EMAIL="t@example.invalid")


def make_repository(root: Path, commits: list[dict]) -> None:
    root.mkdir()
    subprocess.run(["git", "init", "-q", "--template=", str(root)], check=True)
    for step in commits:
        for path, content in step["files"].items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        subprocess.run(["git", "-C", str(root), "add", "-A"], check=True)
        subprocess.run(["git", "-C", str(root), "commit", "-q", "-m", step["message"]], check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for row in sys.stdin:
            request = json.loads(row)
            root = base / request["id"]
            if request["do"] == "create":
                template = base / f"template-{request['taskId']}"
                if not template.exists():
                    make_repository(template, request["commits"])
                shutil.copytree(template, root)
                answer: object = {}
            elif request["do"] == "call":
                try:
                    content = tools.TOOLS[request["name"]](root, **request["arguments"])
                    answer = {"content": content, "status": "ok"}
                except tools.ToolError as error:
                    answer = {"content": f"error: {error}", "status": "tool-error"}
            else:
                answer = {"reasons": grader.grade(request["grading"], root)}
                shutil.rmtree(root)
            print(json.dumps(answer), flush=True)


main()
