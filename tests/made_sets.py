"Sets of questions that many tests play."

from functools import cache

from sql_env.sources.loading import load


@cache
def bundled():
    return load("bundled")


@cache
def held_out(n=20):
    "Of the split that nothing is trained on."
    return load("bundled", split="test").sample(n, 1)
