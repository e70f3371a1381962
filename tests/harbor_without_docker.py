"""A container for Harbor where there is no Docker: a folder as root, in its own namespace. For tests, not for safety.

harbor run -p TASKS -a oracle -e harbor_without_docker:FolderEnvironment
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

PYTHON = os.environ["SQL_ENV_PYTHON"]  # that has this package, for both containers
ENTER = """
for name in usr etc root opt work home proc dev tmp; do
  [ -d /$name ] && mkdir -p "$0/$name" && mount --rbind "/$name" "$0/$name"; done
for name in bin lib lib64 sbin; do [ -L "$0/$name" ] || ln -s "usr/$name" "$0/$name"; done
exec chroot "$0" bash -c "cd /app 2>/dev/null || cd /; $1"
"""


class FolderEnvironment(BaseEnvironment):
    "What COPY puts into an image, and what Harbor uploads, in a folder."

    @staticmethod
    def type():
        return "folder"

    @property
    def capabilities(self):
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self):
        assert (self.environment_dir / "Dockerfile").is_file()

    def _inside(self, path):
        return self.root / str(path).lstrip("/")

    async def start(self, force_build):
        self.root = Path(tempfile.mkdtemp(prefix="harbor-"))
        for name in ("agent", "verifier", "artifacts"):
            (self.root / "logs" / name).mkdir(parents=True)
        for line in (self.environment_dir / "Dockerfile").read_text().splitlines():
            if line.startswith("COPY"):
                source, target = [word for word in line.split()[1:] if not word.startswith("--")]
                copy(self.environment_dir / source, self._inside(target))

    async def stop(self, delete):
        shutil.rmtree(self.root)

    async def upload_file(self, source_path, target_path):
        copy(source_path, self._inside(target_path))

    async def upload_dir(self, source_dir, target_dir):
        copy(source_dir, self._inside(target_dir))

    async def download_file(self, source_path, target_path):
        copy(self._inside(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        copy(self._inside(source_dir), target_dir)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        path = {"PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}"}
        process = await asyncio.create_subprocess_exec(
            *["unshare", "-m", "bash", "-c", ENTER, str(self.root), command],
            env=os.environ | path | (env or {}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)


def copy(source, target):
    source, target = Path(source), Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
