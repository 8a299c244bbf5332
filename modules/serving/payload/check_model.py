"""Looks at a model's folder before vLLM starts. Comes in: the folder, and how it has to show which model it holds.
Goes out: exit status 0; or 78 and one sentence on stderr, which Kubernetes shows as the reason. Reads only. Python alone.

A folder's name is no proof of what was put into it, and vLLM's own error for a half-copied model is a long trace.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

REVISION = "uplift-revision"
MANIFEST = "uplift-manifest.json"
# sysexits' EX_CONFIG: it cannot run until somebody changes something.
CANNOT_RUN = 78


class Wrong(Exception):
    """What is wrong, a sentence."""


def text(path):
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        who = f"user {os.getuid()}"
        raise Wrong(f"{path} cannot be read by {who} ({error.strerror}): chmod -R a+rX {path.parent}") from None


def check_revision(folder, revision):
    found = (text(folder / REVISION) or "").strip()
    if not found:
        ask = f"write the commit that it was downloaded at to {folder / REVISION}"
        raise Wrong(f"{folder} may be another revision than the plan's, {revision}: {ask}")
    if found != revision:
        raise Wrong(f"{folder} is revision {found} by its file {REVISION}, the plan's is {revision}: download that one")


def read_manifest(folder):
    written = text(folder / MANIFEST)
    if written is None:
        raise Wrong(f"{folder} has no {MANIFEST}: no export finished there, so it may be half of a checkpoint")
    try:
        manifest = json.loads(written)
        files = [{"path": file["path"], "bytes": file["bytes"], "sha256": file["sha256"]} for file in manifest["files"]]
    except (ValueError, KeyError, TypeError):
        raise Wrong(f"{folder / MANIFEST} is no list of a model's files: export the checkpoint again") from None
    # Sizes only: hashing would read all weights once more. A copy that was cut off shows here.
    for file in files:
        path = folder / file["path"]
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise Wrong(f"{path} is missing, though {MANIFEST} lists it: copy the checkpoint again")
        if size != file["bytes"]:
            raise Wrong(f"{path} has {size} bytes, {MANIFEST} says {file['bytes']}: copy the checkpoint again")
    return manifest, files


def digest_of(files):
    """As digestFiles of modules/checkpoints computes it: canonical JSON of the files, by path."""
    ordered = sorted(files, key=lambda file: file["path"])
    canonical = json.dumps(ordered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def check(options):
    folder = Path(options.folder)
    if text(folder / "config.json") is None:
        raise Wrong(f"no model in {folder}: config.json is missing")
    if options.revision is not None:
        check_revision(folder, options.revision)
    if options.checkpoint is not None:
        manifest, _ = read_manifest(folder)
        if manifest.get("checkpoint") != options.checkpoint:
            found = manifest.get("checkpoint")
            raise Wrong(f"{folder} is the checkpoint {found} by its {MANIFEST}, asked for was {options.checkpoint}")
    if options.digest is not None:
        _, files = read_manifest(folder)
        found = digest_of(files)
        if found != options.digest:
            raise Wrong(f"{folder} has the digest {found} by its {MANIFEST}, asked for was {options.digest}")


def main():
    parser = argparse.ArgumentParser(description="Looks at a model's folder before vLLM starts.")
    parser.add_argument("--folder", required=True, help="the model's folder")
    parser.add_argument("--revision", help=f"its file {REVISION} has to name this commit")
    parser.add_argument("--checkpoint", help=f"its {MANIFEST} has to be of this checkpoint, e.g. rl-40")
    parser.add_argument("--digest", help=f"the files that its {MANIFEST} lists have to have this digest")
    options = parser.parse_args()
    try:
        check(options)
    except Wrong as wrong:
        print(f"uplift: {wrong}", file=sys.stderr)
        return CANNOT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main())
