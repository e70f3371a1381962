"Tests over made examples: the same ones in every run, and a part of them where slow tests are left out."

from hypothesis import settings
from hypothesis import strategies as st

PART = 1.0  # conftest sets it


def law(n: int, **more) -> settings:
    "Settings of a test that holds for any example, with `n` of them where slow tests run too."
    same = dict(deadline=None, derandomize=True, database=None)
    return settings(max_examples=max(10, round(n * PART)), **same, **more)


def json_values(keys=st.text(), **size) -> st.SearchStrategy:
    "Whatever JSON can hold."
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    return st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(keys, x), **size)
