"The progress bar: when it appears, what it counts, and that it never stays behind."

import sys
from types import SimpleNamespace

import pytest

from sql_env.paths import ProgressBar


@pytest.fixture
def screen(monkeypatch):
    "Stands in for rich and for the clock: `screen.bars` are the bars that were started, `screen.now` is the time."

    class Bar:
        task_ids = [0]

        def __init__(self, label, total):
            self.label, self.total, self.shown, self.running = label, total, [], True
            screen.bars.append(self)

        def update(self, task, completed, description=""):
            self.shown.append(completed)

        def stop(self):
            self.running = False

    screen = SimpleNamespace(bars=[], now=0.0)
    monkeypatch.setattr("sql_env.paths._start_bar", Bar)
    monkeypatch.setattr("sql_env.paths.time", SimpleNamespace(monotonic=lambda: screen.now))
    return screen


def test_short_work_or_work_that_nobody_wants_to_see_shows_nothing(screen):
    assert list(ProgressBar("Working", 3).watch("abc")) == ["a", "b", "c"]
    assert list(ProgressBar("Working", 3, show=False, delay=0).watch("abc")) == ["a", "b", "c"]
    assert not screen.bars


def test_a_bar_appears_after_a_second_and_counts_from_the_beginning(screen):
    for letter in ProgressBar("Working", 4).watch("abcd"):
        screen.now = float(letter >= "c")
    with ProgressBar("Working", 10, delay=0) as progress:
        progress.advance(3)
        progress.advance(4)
    one, groups = screen.bars
    assert (one.label, one.total, one.shown, one.running) == ("Working", 4, [3, 4], False)
    assert groups.shown == [3, 7] and progress.done == 7 and not groups.running


def test_a_loop_that_ends_early_removes_its_bar(screen):
    for letter in ProgressBar("Working", 3, delay=0).watch("abc"):
        if letter == "b":
            break
    with pytest.raises(ValueError):
        for letter in ProgressBar("Working", 3, delay=0).watch("abc"):
            if letter == "b":
                raise ValueError
    assert [bar.running for bar in screen.bars] == [False, False]


def test_the_real_bar_is_silent_in_a_file_and_drawn_on_a_terminal(capsys, monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert list(ProgressBar("Working", 2, delay=0).watch("ab")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(ProgressBar("Working", 2, delay=0).watch("ab")) == ["a", "b"]
    out, err = capsys.readouterr()
    assert "Working" in err and "2/2" in err and not out
