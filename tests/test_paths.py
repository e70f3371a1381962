"Files and folders are there as a whole or not at all, whoever writes at the same time."

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from sql_env.paths import replacing


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
