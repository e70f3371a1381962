"Servers in processes of their own, for the tests of rooms 10 to 13."

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location(
    "server_load", Path(__file__).resolve().parent.parent / "benchmarks" / "server.py"
)
load = importlib.util.module_from_spec(spec)
spec.loader.exec_module(load)
Server, Session = load.Server, load.Session
