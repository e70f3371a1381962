"Servers in processes of their own, and the load generator that `benchmarks/server.py` is."

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location(
    "server_load", Path(__file__).resolve().parent.parent / "benchmarks" / "server.py"
)
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
Server, Session = benchmark.Server, benchmark.Session
