"""`python -m tensor_comprehensions fmt` and `check`: layouts, comments, files, exit status."""

from __future__ import annotations

import importlib.metadata
import io
import os
import random
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from workloads import WORKLOADS

import tensor_comprehensions as tc
from tensor_comprehensions import LanguageError, _torch
from tensor_comprehensions.__main__ import main

ROOT = Path(__file__).parents[2]

RECURRENCE = "def f(float(N) A) -> (B) {\n    B(i) = B(i - 1) * 0.5 + A(i)\n}\n"
UNTIDY = "def f(float(N)A)->(B){B(i)=A(i)}"
TIDY = "def f(float(N) A) -> (B) {\n    B(i) = A(i)\n}\n"
WRONG = "def f(float(N) A) -> (B) {\n    B(i) = a(i)\n}\n"


def texts() -> dict[str, str]:
    """All texts of the project, by where they are from."""
    found = {path.name: path.read_text() for path in (ROOT / "ops").glob("*.tc")}
    found |= {workload.name: workload.text for workload in WORKLOADS}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        definitions = [
            block for language, block in blocks if not language and re.match(r"\s*(#|def )", block)
        ]
        found |= {f"{page.name} {i}": block for i, block in enumerate(definitions)}
    return found


TEXTS = texts()

# Layouts that formatting should make, on both sides of a line of 100 columns.
SUM = " + ".join(f"A(i + {i})" for i in range(30))
LAYOUTS = [
    (UNTIDY, TIDY),
    ("def f(float(N) A) -> (B) {\n\n\n  B(i) = A(i)\n\n}\n\n\n", TIDY),
    ("def f(float(N) A) -> (B) {\r\n    B(i) = A(i)\r\n}\r\n", TIDY),
    # Spellings and parentheses stay.
    (
        "def f(float32(N) A,byte(0x10)b)->(B) { B(i)=((A(i)))*1.50e+0f+fmaxf(A(i),- -1 )+b( i )}",
        "def f(float32(N) A, byte(0x10) b) -> (B) {\n"
        "    B(i) = ((A(i))) * 1.50e+0f + fmaxf(A(i), --1) + b(i)\n}\n",
    ),
    (
        "def f(float(N) A, int s) -> (B, float(M) C) <=> g(A) { B(i) +=! A(i+k)<=>h(A(i),2)\n"
        "where k in 0:s,x=-A . 0,exists!(i<3) C = 0 (P, Q) = g(A)\nR = h(A)}",
        "def f(float(N) A, int s) -> (B, float(M) C) <=> g(A) {\n"
        "    B(i) +=! A(i + k) <=> h(A(i), 2) where k in 0:s, x = -A.0, exists !(i < 3)\n"
        "    C = 0\n    (P, Q) = g(A)\n    R = h(A)\n}\n",
    ),
    # One empty line is kept, more are one.
    (
        "# top\n\n\n# of f\ndef f() -> (B) {\n\n  B = 1\n\n\n  # of C\n  C = 2\n\n}\ndef g() -> (B)"
        " {}\n\n\n\n# end\n",
        "# top\n\n# of f\ndef f() -> (B) {\n    B = 1\n\n    # of C\n    C = 2\n}\n"
        "def g() -> (B) {}\n\n# end\n",
    ),
    # Comments stay beside what they stand beside.
    (
        "def f(float(N) A, # the input\n  float(N) B) -> (C) { # a head\n"
        "C(i) = A(i) # a value  \n   where i in 0:N # a range\n # last\n } # end\n# after",
        "def f(float(N) A,  # the input\n      float(N) B) -> (C) {  # a head\n"
        "    C(i) = A(i)  # a value\n        where i in 0:N  # a range\n    # last\n}  # end\n"
        "# after\n",
    ),
    (
        "def f(float(N) A) -> (C) {\n C(i) = A(i) # one\n + # two\n # three\n B(i) * (A(i)\n"
        "# four\n)}",
        "def f(float(N) A) -> (C) {\n    C(i) =\n        A(i)  # one\n            +  # two\n"
        "                # three\n                B(i)\n                * (A(i)\n"
        "                   # four\n                   )\n}\n",
    ),
    # Lines of at most 100 columns.
    (
        "def f(float(N) A) -> (B) {"
        "B(i) = A(i) > 0 && A(i + 1) > 0 && A(i + 2) > 0 ? A(i) * A(i + 1) * A(i + 2)"
        " : A(i) < 0 ? A(i + 3) : 2 where i in 0:N - 3, j in 0:N }",
        "def f(float(N) A) -> (B) {\n    B(i) =\n"
        "        A(i) > 0 && A(i + 1) > 0 && A(i + 2) > 0\n"
        "            ? A(i) * A(i + 1) * A(i + 2) : A(i) < 0 ? A(i + 3) : 2\n"
        "        where i in 0:N - 3, j in 0:N\n}\n",
    ),
]


@pytest.mark.parametrize("before, after", LAYOUTS)
def test_layouts(before: str, after: str) -> None:
    assert _torch.format(before) == after
    assert _torch.format(after) == after


def test_long_sums_fill_lines() -> None:
    text = _torch.format(f"def f(float(N) A) -> (B) {{ B(i) = {SUM} }}")
    lines = text.splitlines()
    assert all(90 < len(line) <= 100 for line in lines[2:-2])
    assert lines[2].startswith("        A(i + 0) + ")
    assert all(line.startswith(" " * 12 + "+ A(i") for line in lines[3:-1])


def comments(text: str) -> list[str]:
    return [comment.rstrip() for comment in re.findall(r"#[^\n]*", text)]


def canonical(text: str) -> list[str]:
    return [definition.text for definition in _torch.parse(text).definitions]


@pytest.mark.parametrize("name", TEXTS)
def test_formatting_keeps_trees_and_comments(name: str) -> None:
    text = TEXTS[name]
    formatted = _torch.format(text)
    assert _torch.format(formatted) == formatted
    assert canonical(formatted) == canonical(text)
    assert comments(formatted) == comments(text)
    if name.endswith(".tc"):
        assert formatted == text, f"ops/{name}: run make format"


def sprinkled(text: str, generator: random.Random) -> str:
    """The text with comments, blanks and line breaks between many of its tokens."""
    pieces = []
    for number, piece in enumerate(re.findall(r"#[^\n]*\n|\s+|[^\s#]+", text)):
        pieces.append(piece)
        if piece.isspace():
            kind = generator.choice("   #\n")
            pieces.append(f"# {number}{' ' * generator.randrange(3)}\n" if kind == "#" else kind)
    return "".join(pieces)


@pytest.mark.parametrize("name", TEXTS)
def test_comments_anywhere(name: str) -> None:
    generator = random.Random(name)
    for _ in range(20):
        text = sprinkled(TEXTS[name], generator)
        formatted = _torch.format(text)
        assert _torch.format(formatted) == formatted
        assert canonical(formatted) == canonical(text)
        assert comments(formatted) == comments(text)
        assert not re.search(r"[ \t]\n|\n\n\n|\A\n|\n\n\Z", formatted)


def test_only_the_grammar_is_checked() -> None:
    assert _torch.format(WRONG) == WRONG
    with pytest.raises(LanguageError, match="1:22: expected an expression but found '}'"):
        _torch.format("def f() -> (B) { B = }")


# ---- the command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "untidy.tc"
    path.write_text(UNTIDY)
    return path


def test_fmt_rewrites_files(file: Path, capsys: pytest.CaptureFixture) -> None:
    file.chmod(0o640)
    link = file.with_name("link.tc")
    link.symlink_to(file.name)
    assert main(["fmt", str(link)]) == 0
    assert capsys.readouterr().out == f"reformatted {link}\n"
    assert file.read_text() == TIDY and link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    before = file.stat().st_mtime_ns
    assert main(["fmt", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert file.stat().st_mtime_ns == before
    assert sorted(file.parent.iterdir()) == [link, file]


def test_fmt_check_and_diff_change_nothing(file: Path, capsys: pytest.CaptureFixture) -> None:
    tidy = file.with_name("tidy.tc")
    tidy.write_text(TIDY)
    assert main(["fmt", "--check", str(file), str(tidy)]) == 1
    assert capsys.readouterr().out == f"would reformat {file}\n"
    assert main(["fmt", "--check", str(tidy)]) == 0
    assert main(["fmt", "--diff", str(file), str(tidy)]) == 0
    assert capsys.readouterr().out == (
        f"--- {file}\n+++ {file} (formatted)\n@@ -1 +1,3 @@\n-{UNTIDY}\n"
        "\\ No newline at end of file\n+def f(float(N) A) -> (B) {\n+    B(i) = A(i)\n+}\n"
    )
    assert main(["fmt", "--check", "--diff", str(file)]) == 1
    assert file.read_text() == UNTIDY


def test_a_wrong_file_stays_and_others_are_done(file: Path, capsys: pytest.CaptureFixture) -> None:
    wrong, bytes_ = file.with_name("wrong.tc"), file.with_name("bytes.tc")
    wrong.write_text("def f(\n")
    bytes_.write_bytes(b"# caf\xc3\xa9\n# caf\xe9\n")
    missing = file.with_name("missing.tc")
    assert main(["fmt", *map(str, (wrong, missing, bytes_, file.parent, file))]) == 1
    output = capsys.readouterr()
    assert output.out == f"reformatted {file}\n"
    assert output.err == (
        f"{wrong}:2:1: expected a type but found the end of the text\n  \n  ^\n"
        f"{missing}: No such file or directory\n"
        f"{bytes_}:2: byte 0xe9 is not UTF-8\n"
        f"{file.parent}: Is a directory\n"
    )
    assert wrong.read_text() == "def f(\n" and file.read_text() == TIDY


def test_a_file_that_cannot_be_replaced_stays(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["fmt", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: No space left on device\n"
    assert file.read_text() == UNTIDY and list(file.parent.iterdir()) == [file]


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    wrong, suspect = tmp_path / "wrong.tc", tmp_path / "suspect.tc"
    wrong.write_text(WRONG)
    suspect.write_text("def f(float(N) A) -> (B) {\n    B(i) += A(i)\n}\n")
    assert main(["check", str(suspect), str(wrong), *map(str, ROOT.glob("ops/*.tc"))]) == 1
    first, second = capsys.readouterr().out.split(f"\n{wrong}:")
    assert first.startswith(f"{suspect}:2:10: warning: Reduction without initialization.")
    assert first.endswith("\n      B(i) += A(i)\n           ^~")
    assert second.startswith("2:12: undefined variable a used here")
    assert second.endswith("\n      B(i) = a(i)\n             ^~~~\n")
    assert main(["check", str(suspect)]) == 0


def test_check_refuses_what_no_size_can_compile(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "recurrence.tc"
    file.write_text(RECURRENCE)
    assert main(["check", str(file)]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}:2:5: this statement reads B in place, at elements that other")
    assert "B(i) +=! j <= i ? A(j) : 0 where i in 0:N" in first
    assert "call it in a loop on the host" in first
    assert lines == ["      B(i) = B(i - 1) * 0.5 + A(i)", "      ^" + "~" * 27]


def test_version(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = f"tensor-comprehensions {tc.__version__} (core {_torch.core_version()}, torch "
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and capsys.readouterr().out.startswith(wanted)
    assert run("--version", text="").stdout.startswith(wanted)
    for called, shown in (
        ("/bin/tensor-comprehensions", "tensor-comprehensions"),
        ("/lib/tensor_comprehensions/__main__.py", "python -m tensor_comprehensions"),
    ):
        monkeypatch.setattr(sys, "argv", [called])
        with pytest.raises(SystemExit):
            main(["--help"])
        assert capsys.readouterr().out.startswith(f"usage: {shown} [-h] [--version] COMMAND")


def test_the_console_script() -> None:
    script = Path(sys.executable).parent / "tensor-comprehensions"
    (entry,) = importlib.metadata.entry_points(
        group="console_scripts", name="tensor-comprehensions"
    )
    assert entry.load() is main
    done = subprocess.run([script, "check", "-"], input=WRONG, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith("<stdin>:2:12: undefined variable a used here")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"tensor-comprehensions {tc.__version__} (core ")


def run(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tensor_comprehensions", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_as_a_program() -> None:
    done = run("fmt", "-", text=UNTIDY)
    assert (done.returncode, done.stdout, done.stderr) == (0, TIDY, "")
    done = run("check", "-", text=WRONG)
    assert done.returncode == 1
    assert done.stdout.startswith("<stdin>:2:12: undefined variable a")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def piped(text: str, *arguments: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return main(arguments)

    assert piped(UNTIDY, "fmt", "--check", "-") == 1
    assert capsys.readouterr() == ("would reformat <stdin>\n", "")
    assert piped("def", "fmt", "-") == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("<stdin>:1:4: expected the name of the definition")


def test_help_names_everything(capsys: pytest.CaptureFixture) -> None:
    def leaves(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code

    for arguments in ((), ("fmt",), ("check",)):
        assert leaves(*arguments, "--help") == 0
        help_text = capsys.readouterr().out
        for word in ("FILE", "Exit status") if arguments else ("fmt", "check"):
            assert word in help_text
    assert leaves() == 2
    assert "usage: python -m tensor_comprehensions" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_who_has_seen_enough_ends_it_in_silence(command: str, tmp_path: Path) -> None:
    text = "".join(f"def f{k}(float(N) x) -> (y) {{ y(i) = {k} * x(i) }}\n" for k in range(3000))
    file = tmp_path / "many.tc"
    file.write_text(text)
    with subprocess.Popen(
        [sys.executable, "-m", "tensor_comprehensions", command, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
