"Servers in processes of their own, and the load generator that `benchmarks/server.py` is."

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: pip install 'sql_env[server]'")


def load_benchmark(name: str) -> ModuleType:
    "A script of `benchmarks` as a module."
    path = Path(__file__).resolve().parent.parent / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmark = load_benchmark("server")
Server, Session, quantile = benchmark.Server, benchmark.Session, benchmark.quantile
