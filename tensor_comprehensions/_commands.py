"""The commands ``cache`` and ``tune`` of the command line."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tensor_comprehensions import TCError, _torch
from tensor_comprehensions._tuning.config import EFFORTS, STRATEGIES, TunerConfig
from tensor_comprehensions._tuning.problem import Problem
from tensor_comprehensions._tuning.trials import microseconds
from tensor_comprehensions._tuning.tuner import run_search


def _heading(text: str) -> str:
    """The name of a definition."""
    found = re.search(r"def\s+(\w+)", text)
    return found[1] if found else "?"


def not_text(error: UnicodeDecodeError) -> str:
    """Where a file is no text."""
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"{line}: byte 0x{error.object[error.start]:02x} is not UTF-8"


# ---- files


def _list(arguments: argparse.Namespace) -> int:
    """One line for each definition and arguments that Plans were tuned for."""
    for name in arguments.files:
        store = _torch.Store.read(name, False)
        texts, tunings = store.texts(), store.tunings()
        definitions = sum(len(text.definitions) for text in texts)
        print(f"{name}: {definitions} definitions, {len(tunings)} tuned")
        for tuning in tunings:
            best = tuning.plans[0] if tuning.plans else None
            figures = (
                "no Plan"
                if best is None
                else f"{microseconds(best.times.minimum)} "
                f"({best.times.minimum / best.standard.minimum:.3f} of the compiler's own), "
                f"{best.processor}, {time.strftime('%Y-%m-%d', time.localtime(best.time))}"
            )
            print(
                f"  {_heading(tuning.text)} {tuning.arguments} on {tuning.target}, "
                f"{tuning.threads} threads: {figures}; {tuning.measured} measured"
            )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    """Everything that a file knows of tuned Plans."""
    for tuning in _torch.Store.read(arguments.file, False).tunings():
        print(tuning.text.strip())
        print(f"  arguments  {tuning.arguments}")
        print(f"  options    {tuning.options}")
        print(f"  target     {tuning.target}, {tuning.threads} threads")
        print(f"  machine    {tuning.machine or '-'}")
        print(f"  measured   {tuning.measured} Plans, {len(tuning.trials)} kept")
        for plan in tuning.plans:
            print(
                f"  {microseconds(plan.times.minimum)} (median "
                f"{microseconds(plan.times.median)}, spread {plan.times.spread:.3f}), the "
                f"compiler's own {microseconds(plan.standard.minimum)}; version {plan.version}, "
                f"{plan.processor}, {time.strftime('%Y-%m-%d %H:%M', time.localtime(plan.time))}"
            )
            print(f"    {plan.options}")
        print()
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    """Adds what files hold to another."""
    stores = [_torch.Store.read(name, False) for name in arguments.sources]
    for store in stores:
        store.save(arguments.target)
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    """Leaves out what is slower, and what an older search has measured."""
    before = Path(arguments.file).stat().st_size if Path(arguments.file).exists() else 0
    _torch.prune_store(arguments.file, arguments.plans, arguments.trials, arguments.this_machine)
    print(f"{arguments.file}: {before} bytes, now {Path(arguments.file).stat().st_size}")
    return 0


# ---- tuning


def parse_sizes(text: str) -> dict[str, int]:
    """``M=128,K=1024``."""
    sizes = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\w+)\s*=\s*(-?\d+)\s*", part)
        if found is None:
            raise TCError(f"--shapes {text}: expected sizes by name, as M=128,K=1024")
        sizes[found[1]] = int(found[2])
    return sizes


def make_inputs(definition: _torch.Definition, sizes: dict[str, int]) -> list[Any]:
    """Random inputs of these sizes; indices are such that any dimension has them. TCError."""
    missing: list[str] = []
    shapes: list[list[int]] = []
    for number, info in enumerate(definition.inputs):
        shape = []
        for dimension in range(0 if info.is_scalar else info.ndim):
            name = definition.input_dimension(number, dimension)
            size = int(name) if name.isdigit() else sizes.get(name)
            if size is None:
                missing.append(name)
            elif size < 0:
                raise TCError(
                    f"--shapes says {name}={size}, but {name} is a size of {definition.name}: 0 at "
                    f"least"
                )
            shape.append(size or 0)
        if info.is_scalar and info.is_specialized and info.name not in sizes:
            missing.append(info.name)
        shapes.append(shape)
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        raise TCError(f"--shapes says nothing of {names}, which {definition.name} has")
    try:
        return _random(definition, shapes, sizes)
    except (RuntimeError, TypeError) as error:  # what PyTorch says of sizes that are too large
        raise TCError(
            f"no inputs of {definition.name} can be made with sizes "
            f"{', '.join(map(str, map(tuple, shapes)))}: {str(error).splitlines()[0]}"
        ) from error


def _random(
    definition: _torch.Definition, shapes: list[list[int]], sizes: dict[str, int]
) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    indices = min((size for shape in shapes for size in shape), default=1)
    inputs: list[Any] = []
    for info, shape in zip(definition.inputs, shapes, strict=True):
        if info.is_scalar:
            inputs.append(sizes.get(info.name, 1))
        elif info.dtype.is_floating_point:
            inputs.append(torch.randn(shape, generator=generator).to(info.dtype))
        elif info.dtype == torch.bool:
            inputs.append(torch.rand(shape, generator=generator) < 0.5)
        else:
            numbers = torch.randint(0, max(1, min(indices, 127)), shape, generator=generator)
            inputs.append(numbers.to(info.dtype))
    return inputs


def _tune(arguments: argparse.Namespace) -> int:
    """Tunes the definitions of a file, and keeps what is found beside it."""
    if arguments.threads is not None and arguments.threads < 1:
        raise TCError(f"--threads {arguments.threads}: expected a number of at least 1")
    source = Path(arguments.file).read_bytes().decode()
    cache = arguments.cache or str(Path(arguments.file).with_suffix(".tc.pb"))
    config = TunerConfig().effort(arguments.effort).strategy(arguments.strategy)
    config.seed(arguments.seed)
    if arguments.budget is not None:
        config.budget_seconds(arguments.budget)
    if arguments.candidates is not None:
        config.generations(1).pop_size(arguments.candidates)
    if arguments.log is not None:
        config.log(arguments.log)
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    definitions = {d.name: d for d in _torch.parse(source).definitions}
    for name in arguments.definitions:
        if name not in definitions:
            raise TCError(f"{arguments.file} defines {', '.join(definitions)}, but no {name}")
    tuned = [(d, text) for d in arguments.definitions or definitions for text in arguments.shapes]
    # What does not fit the last one is said before the first is searched for minutes. Inputs are
    # made again: those of all at once may be more than there is memory for.
    for name, text in tuned:
        Problem(source, name, make_inputs(definitions[name], parse_sizes(text)))
    for name, text in tuned:
        inputs = make_inputs(definitions[name], parse_sizes(text))
        search = run_search(Problem(source, name, inputs), config, (), cache)
        print(f"{text}  {search}", flush=True)
        if search.ended == "interrupted":
            return 130
    print(f"kept in {cache}")
    return 0


def run(action: Any, arguments: argparse.Namespace) -> int:
    """What is wrong is said in a line."""
    try:
        status: int = action(arguments)
        return status
    except TCError as error:
        print(error, file=sys.stderr)
    except UnicodeDecodeError as error:
        print(f"{arguments.file}:{not_text(error)}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    return 1


def add_cache(commands: Any) -> None:
    cache = commands.add_parser(
        "cache",
        help="list, show, merge and prune files of tuned Plans",
        description="What autotune, tune and save have written: tensor_comprehensions.load and "
        "define(cache=) read it.",
        epilog="Exit status: 0, or 1 where a file cannot be read or written.",
    )
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    listed = actions.add_parser("ls", help="a line for each definition and sizes")
    listed.add_argument("files", nargs="+", metavar="FILE")
    shown = actions.add_parser("show", help="texts, sizes, Plans and times")
    shown.add_argument("file", metavar="FILE")
    merged = actions.add_parser("merge", help="add what files hold to the first")
    merged.add_argument("target", metavar="INTO")
    merged.add_argument("sources", nargs="+", metavar="FROM")
    pruned = actions.add_parser("prune", help="keep the fastest Plans alone")
    pruned.add_argument("file", metavar="FILE")
    pruned.add_argument(
        "--plans", type=int, default=1, help="of each definition and sizes (default 1)"
    )
    pruned.add_argument(
        "--trials", type=int, default=0, help="that later searches go on from (default 0)"
    )
    pruned.add_argument(
        "--this-machine", action="store_true", help="leave out what other machines have found"
    )
    for parser, action in ((listed, _list), (shown, _show), (merged, _merge), (pruned, _prune)):
        parser.set_defaults(run=lambda found, action=action: run(action, found))


def add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="tune the definitions of a file for given sizes",
        description="Searches the fastest Plan of each definition and sizes, on random inputs, and "
        "adds it to a file for tensor_comprehensions.load and define(cache=). Ctrl-C keeps what "
        "was found until then; a later run goes on from there.",
        epilog="Exit status: 0, 1 where something is wrong, or 130 after Ctrl-C.",
    )
    tune.add_argument("file", metavar="FILE", help="a file of definitions")
    tune.add_argument(
        "definitions", nargs="*", metavar="NAME", help="definitions of it; all without any"
    )
    tune.add_argument(
        "--shapes",
        action="append",
        required=True,
        metavar="M=128,K=1024",
        help="sizes by their names in the text, and values of scalars; may be given several times",
    )
    tune.add_argument("--cache", metavar="FILE", help="where Plans go; else FILE.tc.pb beside it")
    tune.add_argument("--effort", choices=EFFORTS, default="normal")
    tune.add_argument("--strategy", choices=STRATEGIES, default="model")
    tune.add_argument("--budget", type=float, metavar="SECONDS", help="of each search")
    tune.add_argument("--candidates", type=int, metavar="N", help="of each search, at most")
    tune.add_argument("--threads", type=int, help="that kernels may use")
    tune.add_argument("--seed", type=int, default=0)
    tune.add_argument("--log", metavar="FILE", help="gets a line for every candidate")
    tune.set_defaults(run=lambda found: run(_tune, found))


def add_to(commands: Any) -> None:
    add_cache(commands)
    add_tune(commands)


__all__: Sequence[str] = ["add_to", "make_inputs", "parse_sizes"]
