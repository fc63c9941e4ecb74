"""`tensor-comprehensions`, or `python -m tensor_comprehensions`: formats, checks and shows files of
definitions, and itself; builds the operators for Caffe2."""

from __future__ import annotations

import argparse
import difflib
import io
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import tensor_comprehensions
from tensor_comprehensions import LanguageError, TCError, _commands, _torch
from tensor_comprehensions._commands import not_text

STDIN = "-"


def shown(name: str) -> str:
    return "<stdin>" if name == STDIN else name


def read(name: str) -> str:
    """The text of a file, line ends as they are. OSError or UnicodeDecodeError."""
    content = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    return content.decode()


def write(name: str, text: str) -> None:
    """Replaces a file as a whole, so that none is ever half written; its permissions stay."""
    path = os.path.realpath(name)  # a link keeps pointing to the file
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".tc")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def format_file(name: str, arguments: argparse.Namespace) -> bool:
    """Whether the file is, after all, as it should be."""
    before = read(name)
    after = _torch.format(before)
    if arguments.diff:
        # Unlike splitlines, StringIO ends lines at line feeds alone.
        old, new = (list(io.StringIO(text)) for text in (before, after))
        for line in difflib.unified_diff(old, new, shown(name), f"{shown(name)} (formatted)"):
            print(line.removesuffix("\n"))
            if not line.endswith("\n"):
                print("\\ No newline at end of file")
    if arguments.check:
        if before != after:
            print(f"would reformat {shown(name)}")
        return before == after
    if name == STDIN and not arguments.diff:
        sys.stdout.buffer.write(after.encode())
    elif before != after and not arguments.diff:
        write(name, after)
        print(f"reformatted {name}")
    return True


def check_file(name: str, arguments: argparse.Namespace) -> bool:
    """Prints the warnings of a file; LanguageError where there is an error."""
    for warning in _torch.parse(read(name)).warnings:
        print(f"{shown(name)}:{warning}")
    return True


def show_file(name: str, arguments: argparse.Namespace) -> bool:
    """Prints what a file of tensor_comprehensions.save holds; CacheError where it is none."""
    from tensor_comprehensions._store import describe

    print(describe(name), end="")
    return True


def for_each(action: Callable[..., bool], arguments: argparse.Namespace) -> int:
    """0 where the action is content with all files; those after a wrong one are done too."""
    content, output = True, arguments.errors
    for name in arguments.files:
        try:
            content = action(name, arguments) and content
            continue
        except LanguageError as error:
            print(f"{shown(name)}:{error}", file=output)
        except UnicodeDecodeError as error:
            print(f"{shown(name)}:{not_text(error)}", file=output)
        except BrokenPipeError:
            raise
        except OSError as error:
            print(f"{shown(name)}: {error.strerror}", file=output)
        except TCError as error:
            print(f"{shown(name)}: {error}", file=output)
        content = False
    return 0 if content else 1


def examine_installation(_: argparse.Namespace) -> int:
    """Prints what this installation is made of and what works; 1 where something needed fails."""
    from tensor_comprehensions import _doctor, show_config

    print(show_config(), flush=True)
    print()
    findings = _doctor.examine()
    for finding in findings:
        print(finding)
    return 0 if all(f.works or not f.needed for f in findings) else 1


def program() -> str:
    """What whoever runs it has typed."""
    name = Path(sys.argv[0]).name
    return name if name == "tensor-comprehensions" else "python -m tensor_comprehensions"


def version() -> str:
    """Ours, with those of what has to fit it."""
    return (
        f"tensor-comprehensions {tensor_comprehensions.__version__} (core "
        f"{_torch.core_version()}, torch {torch.__version__}, Python {platform.python_version()})"
    )


def print_machine(arguments: argparse.Namespace) -> int:
    rows = [line.split("\t") for line in _torch.machine_facts(arguments.measure).splitlines()]
    heads = ["fact", "value", "unit", "source", "meaning"]
    if arguments.measure:
        heads.insert(2, "measured")
        rows = [[*row[:2], row[5] if len(row) > 5 else "", *row[2:5]] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    return 0


def build_for_caffe2(arguments: argparse.Namespace) -> int:
    """Prints the path of the library of operators, alone on the last line."""
    from tensor_comprehensions._caffe2_build import build
    from tensor_comprehensions._caffe2_environment import Caffe2Error, NoEnvironment, find_caffe2

    try:
        found = find_caffe2(arguments.python, arguments.environment, arguments.base)
        library = build(found, arguments.output)
    except Caffe2Error as error:
        print(error, file=sys.stderr)
        return 3 if isinstance(error, NoEnvironment) else 1
    print(f"for {found.python}, torch {found.torch}", file=sys.stderr)
    print(library)
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog=program(),
        description="Formats, checks and shows files of Tensor Comprehensions; tries what works.",
    )
    result.add_argument("--version", action="version", version=version())
    commands = result.add_subparsers(title="commands", required=True, metavar="COMMAND")

    fmt = commands.add_parser(
        "fmt",
        help="lay out files in the usual way",
        description="Rewrites files in the usual layout: four blanks, one statement a line, lines "
        "of at most 100 columns. Comments, single empty lines, parentheses and the spelling of "
        "types, functions and numbers stay. Only the grammar is checked.",
        epilog="Exit status: 0, or 1 where a file has an error or, with --check, would change.",
    )
    fmt.add_argument(
        "--check", action="store_true", help="change nothing; name the files that would change"
    )
    fmt.add_argument("--diff", action="store_true", help="change nothing; print what would change")
    fmt.set_defaults(action=format_file, errors=sys.stderr)

    check = commands.add_parser(
        "check",
        help="report errors and warnings",
        description="Checks grammar, names, types and, as far as they do not depend on the "
        "arguments of a call, ranges. Prints errors and warnings as file:line:column: message.",
        epilog="Exit status: 0, or 1 where a file has an error; warnings do not count.",
    )
    check.set_defaults(action=check_file, errors=sys.stdout)
    show = commands.add_parser(
        "show",
        help="print what files of tensor_comprehensions.save hold",
        description="Prints texts, and for each definition the name that graphs hold, its options "
        "and its backward.",
        epilog="Exit status: 0, or 1 where a file cannot be read.",
    )
    show.set_defaults(action=show_file, errors=sys.stderr)
    show.set_defaults(run=lambda found: for_each(found.action, found))
    show.add_argument("files", nargs="+", metavar="FILE", help="a file that save wrote")
    doctor = commands.add_parser(
        "doctor",
        help="tell what works here, and why not",
        description="Prints versions and the machine that decisions are made for, then tries "
        "kernels, threads, gradients, torch.compile, einsum and a GPU.",
        epilog="Exit status: 0, or 1 where something fails that every machine can do.",
    )
    doctor.set_defaults(run=examine_installation)
    machine = commands.add_parser(
        "machine",
        help="print what is known of this machine",
        description="Prints the facts that decisions are made from: value, unit, where it comes "
        "from, meaning. TC_MACHINE=NAME=VALUE,... replaces any of them.",
    )
    machine.add_argument(
        "--measure",
        action="store_true",
        help="measure what can be measured beside it, on one core, for some seconds",
    )
    machine.set_defaults(run=print_machine)
    caffe2 = commands.add_parser(
        "caffe2-build",
        help="build the operators for Caffe2",
        description="Builds the library that Caffe2 loads by dyndep.InitOpsLibrary, where "
        "something of it changed, tries it, and prints its path on the last line. Caffe2 is that "
        "of torch 1.10, in a Python of its own.",
        epilog="Exit status: 0, or with what is in the way 3 where there is no Python 3.9 or "
        "Caffe2 could not be installed, and 1 otherwise.",
    )
    where = caffe2.add_mutually_exclusive_group()
    where.add_argument("--python", help="the interpreter that has Caffe2")
    where.add_argument(
        "--environment",
        metavar="FOLDER",
        help="an environment with Caffe2, which is made where it is missing (about 900 MB)",
    )
    caffe2.add_argument("--base", help="the Python 3.9 to make the environment with")
    caffe2.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="where the library is kept, in place of the user's cache",
    )
    caffe2.set_defaults(run=build_for_caffe2)
    _commands.add_to(commands)
    for command in (fmt, check):
        command.set_defaults(run=lambda found: for_each(found.action, found))
        command.add_argument(
            "files", nargs="+", metavar="FILE", help="a file of definitions; - for standard input"
        )
    return result


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except TCError as error:
        print(f"{program()}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
