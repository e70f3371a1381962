"Whole files, and the cache that processes share: its size, damage, three writers, a killed one, a full disk."

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from sql_env.paths import DiskCache, replacing

N = [str(i).encode() for i in range(400)]


def test_a_file_or_folder_is_there_as_a_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with replacing(path) as part:
        part.write_text("first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), replacing(path) as part:
        part.write_text("second")
        raise ZeroDivisionError
    os.umask(umask := os.umask(0))
    assert path.read_text() == "first" and path.stat().st_mode & 0o777 == 0o666 & ~umask
    with replacing(path) as part, replacing(path) as other:
        part.write_text("outer")
        other.write_text("inner")
    assert path.read_text() == "outer" and [p.name for p in path.parent.iterdir()] == ["file.txt"]
    with replacing(tmp_path / "model") as part:
        part.mkdir()
        (part / "weights").write_bytes(b"1")
    assert (tmp_path / "model" / "weights").read_bytes() == b"1"


def test_many_writers_of_one_file_leave_a_whole_one(tmp_path):
    def write(i: int) -> None:
        with replacing(tmp_path / "f") as part:
            part.write_text(str(i) * 10_000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [0, 1, 2, 3] * 20))
    text = (tmp_path / "f").read_text()
    assert len(text) == 10_000 and len(set(text)) == 1 and len(list(tmp_path.iterdir())) == 1


def test_the_size_is_bounded_and_the_newest_stay(tmp_path):
    cache, chance = DiskCache(tmp_path / "a.cache", max_bytes=100_000), random.Random(0)
    for key in N[:60]:
        cache.put({key: chance.randbytes(2000)})
    assert cache.path.stat().st_size <= 100_000
    there = [i for i in range(60) if cache.get([N[i]])]
    assert there and there[-1] == 59 and there == list(range(there[0], 60))
    cache.put({b"long": chance.randbytes(20_000)})
    assert not cache.get([b"long"]), "one entry does not push out all others"


def test_a_changed_byte_of_an_entry_is_noticed(tmp_path):
    cache = DiskCache(tmp_path / "a.cache")
    cache.put({b"k": b"a certain text", b"l": b"another"})
    data = cache.path.read_bytes()
    cache.path.write_bytes(data.replace(b"a certain", b"a curtain"))
    assert data.count(b"a certain") == 1 and cache.get([b"k", b"l"]) == {b"l": b"another"}
    cache.path.write_bytes(b"not a database" * 100)
    for text in (b"1", b"2"):
        cache.put({b"k": text})
    assert cache.get([b"k"]) == {b"k": b"2"}


def in_process(code: str, *args, **options) -> subprocess.Popen:
    head = """import sys, resource, signal
from pathlib import Path
from sql_env.paths import DiskCache
cache = DiskCache(Path(sys.argv[1]))
def some(*numbers): return {str(i).encode(): str(i).encode() * 200 for i in range(*numbers)}
"""
    return subprocess.Popen([sys.executable, "-c", head + code, *map(str, args)], **options)


def test_three_writers_lose_nothing(tmp_path):
    code = "for i in range(200): start = int(sys.argv[2]); cache.put(some(start + i, start + i + 1))"
    path = tmp_path / "a.cache"
    writers = [in_process(code, path, start) for start in (0, 100, 200)]
    assert [w.wait() for w in writers] == [0, 0, 0]
    assert DiskCache(path).get(N) == {key: key * 200 for key in N}


def test_a_killed_writer_leaves_whole_groups(tmp_path):
    path = tmp_path / "a.cache"
    code = """
for i in range(10**6):
    cache.put(some(i * 50, i * 50 + 50))
    print(i, flush=True)"""
    with in_process(code, path, stdout=subprocess.PIPE) as writer:
        for _ in range(3):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    cache = DiskCache(path)
    groups = [len(cache.get(N[i : i + 50])) for i in range(0, 300, 50)]
    assert groups[:3] == [50] * 3 and set(groups) <= {0, 50}, "all of a group or nothing"
    cache.put({b"new": b"1"})
    assert cache.get([b"new"])


def test_a_full_disk_or_a_closed_folder_only_means_no_cache(tmp_path):
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
for i in range(200): cache.put(some(i, i + 1))
print(len(cache.get(some(200))) < 200)"""
    with in_process(code, tmp_path / "a.cache", stdout=subprocess.PIPE) as process:
        assert process.stdout.read() == b"True\n"
    assert process.returncode == 0
    (tmp_path / "file").write_text("")
    below = DiskCache(tmp_path / "file" / "below")
    below.put({b"k": b"1"})
    assert below.get([b"k"]) == {}
