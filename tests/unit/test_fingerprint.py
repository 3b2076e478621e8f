"""Which failures are of one fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core.insight.failures import Example, Part, describe_groups, group_by_fault
from stayer.core.insight.fingerprint import LENGTH, alike, fingerprint, shape
from stayer.core.model import Fault

TRACE = """Traceback (most recent call last):
  File "/srv/jobs/crawl.py", line 12, in crawl
    page = fetch(url)
  File "/srv/jobs/net.py", line 40, in fetch
    raise TimeoutError(f"page {number}")
TimeoutError: page 7
"""


def of(message: str = "", trace: str | None = None, **fields: int) -> str:
    return fingerprint("crawl", "error", Fault("TimeoutError", message, trace, **fields))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("page 4711 of 9", "page 12 of 100"),
        ("took 1.5 s", "took 20.25 s"),
        ("at 0xdeadbeef", "at 0x1"),
        ("task abcd2efgh3ijklmn is gone", "task qrst4uvwx5yzabcd is gone"),
        (
            "no row 123e4567-e89b-12d3-a456-426614174000",
            "no row 00000000-e89b-12d3-a456-4266141740ff",
        ),
        ("can't open /data/in/1.csv: denied", "can't open ../x/y.csv: denied"),
        (r"can't open C:\data\a.csv", r"can't open D:\b.csv"),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example:80/z failed"),
        ("no key 'ann'", "no key 'bob smith'"),
        ('no key "ann"', 'no key "7"'),
        ("mail to ann@example.com bounced", "mail to b.c@mail.example.org bounced"),
        ("at 12:30:05", "at 01:02:03"),
        ("from 10.0.0.1:80", "from 192.168.100.7:443"),
        ("bad\nmore: 1", "bad\nquite something else"),
        ("  bad  ", "bad"),
    ],
)
def test_what_differs_from_task_to_task_does_not_count(one: str, other: str) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("connection refused", "connection reset"),
        ("no column", "no columns"),
        ("disk is full: /a/b", "permission denied: /a/b"),
    ],
)
def test_words_count(one: str, other: str) -> None:
    assert of(one) != of(other)


def test_kind_ending_type_code_and_signal_count() -> None:
    fault = Fault("Killed", "killed", signal=9)
    marks = {
        fingerprint("a", "killed", fault),
        fingerprint("b", "killed", fault),
        fingerprint("a", "oom", fault),
        fingerprint("a", "killed", Fault("Shot", "killed", signal=9)),
        fingerprint("a", "killed", Fault("Killed", "killed", signal=15)),
        fingerprint("a", "killed", Fault("Killed", "killed", exit_code=9)),
        fingerprint("a", "killed", None),
    }
    assert len(marks) == 7


def test_the_place_counts_but_not_its_line_or_folder() -> None:
    moved = TRACE.replace("line 40", "line 41").replace("/srv/jobs", "/home/ann/other venv")
    assert of("x", TRACE) == of("x", moved)
    assert of("x", TRACE) != of("x", TRACE.replace("in fetch", "in post"))
    assert of("x", TRACE) != of("x", TRACE.replace("net.py", "web.py"))
    assert of("x", TRACE) != of("x")


def test_only_the_innermost_frames_count_and_a_recursion_counts_once() -> None:
    deep = '  File "/a/walk.py", line 3, in walk\n    walk(n)\n'
    outer = '  File "/a/main.py", line 9, in main\n    walk(n)\n'
    assert of("x", outer + deep + TRACE) != of("x", TRACE)
    assert of("x", outer + deep * 3 + TRACE) == of("x", outer + deep * 900 + TRACE)
    assert of("x", outer * 2 + deep + TRACE) == of("x", deep + TRACE)


def test_of_a_command_its_last_line_counts() -> None:
    def code(tail: str, number: int = 1, ending: str = "error") -> str:
        fault = Fault("ExitCode", f"exit code {number}", tail, number)
        return fingerprint("ffmpeg", ending, fault)  # type: ignore[arg-type]

    assert code("frame 7\n7: no such codec\n") == code("frame 9\nframe 10\n12: no such codec\n\n")
    assert code("no such codec") != code("no such file")
    assert code("no such codec") != code("no such codec", 2)
    # Of one that was stopped it is whatever it was doing.
    assert code("frame", ending="timeout") == code("encoding", ending="timeout")


@given(st.text(max_size=2000), st.text(max_size=2000) | st.none())
def test_any_error_has_one(message: str, trace: str | None) -> None:
    mark = of(message, trace)
    assert len(mark) == LENGTH
    assert mark == of(message, trace)


@given(st.text(alphabet="a1/'\"@.:-x ", max_size=500))
def test_what_is_alike_stays_alike(line: str) -> None:
    assert not any(letter.isdigit() for letter in alike(line))


def test_parts_of_a_fault_are_put_together_the_most_frequent_first() -> None:
    parts = [
        Part("rare", "a", 1, 50.0, 60.0),
        Part("often", "a", 2, 10.0, 20.0),
        Part("often", "b", 3, 5.0, 30.0),
        Part("later", "b", 1, 70.0, 80.0),
    ]
    groups = group_by_fault(parts)
    assert [group.fingerprint for group in groups] == ["often", "later", "rare"]
    examples = {
        "often": Example("t", "k", "error", Fault("E", "m")),
        "rare": Example("u", "", "lost", None),
    }
    first, last = describe_groups(groups, examples, {"often": [1, 2]})
    assert (first.count, first.first, first.last, first.queues) == (5, 5.0, 30.0, ("b", "a"))
    assert (first.example, first.type, first.message, first.lately) == ("t", "E", "m", (1, 2))
    assert (last.type, last.message, last.lately) == ("lost", "", ())


def test_whatever_a_task_wrote_is_looked_at_in_no_time() -> None:
    """In time that is quadratic this would take hours."""
    for text in ("\n" * 10**6, " " * 10**6, 'File "' * 10**5, "\n  File " * 10**5):
        assert shape("error", Fault("E", text, text))
