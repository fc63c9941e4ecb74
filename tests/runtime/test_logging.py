"""What TC_LOGS asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from logs import said

import tensor_comprehensions as tc

SOURCES = Path(__file__).parents[2] / "csrc"
CORE = Path(tc.__file__).parent / "lib" / "libtensor_comprehensions.so"


def described() -> list[str]:
    """The topics that help tells of."""
    lines = said("help", "import tensor_comprehensions").splitlines()
    assert lines[0].endswith("TC_LOGS: it takes topics, separated by commas:")
    return [line.split()[0] for line in lines[1:]]


def test_every_topic_is_described() -> None:
    used = {"all", "help"}
    for path in SOURCES.rglob("*.cpp"):
        text = path.read_text()
        used |= set(re.findall(r'(?:log_enabled|\btell)\(\s*"(\w+)"', text))
        for loop in re.findall(r"for \(const char\* topic : \{(.*?)\}\)\s+if \(log_en", text):
            used |= set(re.findall(r'"(\w+)"', loop))
    assert len(used) > 6
    assert described() == sorted(used)


def test_topics() -> None:
    both = said(" stages, explain ,")
    assert "no topic" not in both
    assert both.count("logged on the CPU, 1 group") == 2
    assert both.count("stages: logged: ") == 2
    assert "program:" not in both
    assert "loop_nest: logged:" in said("all")
    assert said("") == ""


def test_passes() -> None:
    """Every pass of a list is named, and what is said of a run is what it did."""
    lines = said("passes,explain").splitlines()
    lists = dict(re.findall(r"passes: list (\w+): (.*)", "\n".join(lines)))
    assert {"program", "nest", "loops"} <= lists.keys()
    run = r"passes: (\w+)\.(\w+): (changed|same), (\d+\.\d+) ms"
    runs = [match.groups() for line in lines if (match := re.search(run, line))]
    # Why a pass stands where it does, of those in these two lists of each of them.
    places = re.findall(r"passes: place of (\w+)\.(\w+): \S", "\n".join(lines))
    assert len(places) == len(set(places))
    for list_ in ("nest", "loops"):
        assert [name for of, name in places if of == list_] == lists[list_].split(", ")
    # A list once, and each of its passes once a kernel; no other line.
    assert len(runs) + len(lists) + len(places) == sum("passes: " in line for line in lines)
    names = lists["loops"].split(", ")
    assert [name for list_, name, *_ in runs if list_ == "loops"] == names * 2
    for list_, name, *_ in runs:
        assert name in lists[list_].split(", ")
    changed = {name for _, name, what, _ in runs if what == "changed"}
    # A copy of five elements: as vectors, and nothing to add up.
    assert "vectorize_loops" in changed
    assert not changed & {"split_reductions", "vectorize_reductions", "expand_checked_indices"}
    assert sum(float(time) for *_, time in runs) > 0
    values = said("pass_values")
    assert "pass_values: after nest.cut_vector_loops:" in values
    assert "pass_values: after loops.vectorize_loops:" in values
    assert "after nest.vectorize_reductions" not in values
    assert "passes: " not in values


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("hlep", "TC_LOGS: no topic is called 'hlep'; did you mean help? There are all, code, "),
        ("stage,explain", "TC_LOGS: no topic is called 'stage'; did you mean stages?"),
        ("nonsense", "TC_LOGS: no topic is called 'nonsense'; there are all, code, cuda, "),
    ],
)
def test_topics_that_do_not_exist(topics: str, message: str) -> None:
    lines = said(topics)
    assert lines.count(message) == 1
    assert ("logged on the CPU" in lines) == ("explain" in topics.split(","))


def test_topics_are_looked_at_by_the_import() -> None:
    """Also for whoever compiles nothing."""
    lines = said("hlep", "import tensor_comprehensions")
    assert "TC_LOGS: no topic is called 'hlep'" in lines


def test_a_sink_may_call_the_library() -> None:
    """Also while it is told of a topic that there is not, which ended the process."""
    script = f"""
import ctypes, sys
core = ctypes.CDLL({str(CORE)!r})
SINK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)

def sink(topic, message):
    print(topic.decode(), message.decode(), core.tc_set_log_topic(b"explain", 1), file=sys.stderr)

kept = SINK(sink)
core.tc_set_log_sink(kept)
core.tc_set_log_sink(None)
"""
    told = said("bogus,stages", script)
    assert told.count("\n") == 1
    assert told.startswith("TC_LOGS no topic is called 'bogus'; there are all, code, ")
    assert told.endswith(" 0\n")
