"""Random Plans: what the compiler decided, changed at random, and what tuning draws.

A Plan that is right gives right results, one that is not a reason. Changed are sizes and order of
tiles, register tiles and the terms in them, instructions, places of points, vectors, loops of
nests, copies and blocks in them; of some Plans only a part is said, so that the compiler chooses
the rest around it. A Plan that is left as it was gives the same machine code.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from dataclasses import fields as dataclass_fields
from dataclasses import replace

import torch
from cases import Case, Disagreement, check, make_options, on_machine
from machine_code import code
from random_dot_products import make_dot_products
from random_layers import make_layers, make_products
from random_programs import make_case

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions._define import find_definition
from tensor_comprehensions._tuning.problem import Problem

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64)
TERMS = (1, 2, 3, 4, 4, 8)
INSTRUCTIONS = ("vpdpbusd", "vpdpbssd", "vpdpbuud", "vpdpwssd", None)
POINTS = ("around", "vector inside", "inside", "apart")
#: Plans that are tried of a program: changed as text, and drawn as by a search.
PLANS, DRAWN = 3, 2

Call = tuple[str, list, dict]


def make_planned(seed: int) -> Case:
    make = (make_layers, make_products, make_dot_products, make_case)[seed % 4]
    case = make(seed)
    # One of its machines; its options are what is drawn here.
    machine = next((o.partition(" on ")[2] for o in case.options if " on " in o), "")
    return replace(case, options=(f"None on {machine}" if machine else "None",))


def calls_of(options: str) -> list[Call]:
    """tc.MappingOptions("default").tile(...): its calls, the first one first."""
    node, calls = ast.parse(options, mode="eval").body, []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        values = [ast.literal_eval(value) for value in node.args]
        named = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
        calls.append((node.func.attr, values, named))
        node = node.func.value
    return calls[::-1]


def text_of(calls: list[Call]) -> str:
    parts = []
    for name, values, named in calls:
        arguments = [repr(value) for value in values]
        arguments += [f"{key}={value!r}" for key, value in named.items()]
        parts.append(f"{name}({', '.join(arguments)})")
    return ".".join(parts)


def sections(calls: list[Call]) -> list[list[Call]]:
    """What is said of all, then of one cluster after the other."""
    result: list[list[Call]] = [[]]
    for call in calls:
        if call[0] == "cluster":
            result.append([])
        result[-1].append(call)
    return result


class Change:
    """Changes of one cluster's part of a Plan."""

    def __init__(self, r: random.Random, section: list[Call]) -> None:
        self.r = r
        self.loops = next((c[1] for c in section if c[0] == "order"), [])
        # Of reductions, those that copies and register tiles name.
        named = [index for c in section if c[0] == "registers" for index in c[2]]
        for c in section:
            if c[0] == "copy" and c[2]:
                named += re.findall(r"[a-z_]\w*", c[1][0].partition("(")[2])
        self.terms = sorted({index for index in named if index not in self.loops})

    def sizes(self, loops: list[str]) -> list:
        return [(loop, self.r.choice(SIZES)) for loop in loops]

    def change(self, call: Call) -> list[Call]:
        """The calls in place of one."""
        name, values, named = call
        r = self.r
        if name == "tile" and values[:1] == ["task"]:
            loops = r.sample(self.loops, len(self.loops))
            kept = loops if r.random() < 0.7 else loops[: r.randrange(len(loops) + 1)]
            return [("tile", ["task", *self.sizes(kept)], {})]
        if name == "tile":
            return [] if r.random() < 0.5 else [call]
        if name == "registers":
            loops = r.sample(self.loops, r.randrange(min(3, len(self.loops)) + 1))
            sizes = self.sizes(loops)
            if self.terms and r.random() < 0.5:
                sizes.append((r.choice(self.terms), r.choice(TERMS)))
            return [("registers", sizes, {})]
        if name == "instruction":
            return [("instruction", [r.choice(INSTRUCTIONS)], {})] if r.random() < 0.7 else []
        if name == "order":
            return [("order", r.sample(values, len(values)), {})]
        if name == "points":
            return [("points", [r.choice(POINTS)], {})]
        if name in ("vector", "parallel"):
            return [(name, [r.random() < 0.5], {})]
        if name == "nest" and named.get("loops") and isinstance(named["loops"][0], str):
            loops = list(named["loops"])
            changed = {"loops": tuple(r.sample(loops, len(loops))), "vector": r.random() < 0.5}
            return [("nest", values, changed)]
        if name == "copy" and named:
            order = list(named["order"])
            if order and r.random() < 0.3:
                self.block(order)
            changed = {**named, "order": tuple(r.sample(order, len(order)))}
            return [("copy", values, changed)] if r.random() < 0.7 else []
        return [call]

    def block(self, order: list) -> None:
        """Makes two dimensions of one."""
        at, size = self.r.randrange(len(order)), self.r.choice(TERMS)
        dimension = order[at]
        if isinstance(dimension, int):
            order[at : at + 1] = [f"{dimension}/{size}", f"{dimension}%{size}"]


def change(options: str, r: random.Random) -> str:
    """A Plan that differs from another one in some places."""
    first, *clusters = sections(calls_of(options))
    often = r.choice([0.15, 0.4, 0.8])
    partial = r.random() < 0.3
    result = list(first)
    for section in clusters:
        changes = Change(r, section)
        for call in section:
            if call[0] in ("cluster", "inside"):
                result.append(call)
            elif partial and r.random() < 0.5:
                continue
            elif r.random() < often:
                result += changes.change(call)
            else:
                result.append(call)
    return text_of(result)


class Tried(Case):
    """Runs as a search runs its candidates: groups of statements may be kernels of their own."""

    def actual(self, options: str) -> tuple[torch.Tensor, ...]:
        options, _, machine = options.partition(" on ")
        problem = Problem(self.text, self.entry, self.make_inputs())
        results = self.make_initial() or tuple(
            torch.empty_like(output, device="cpu").fill_(1) for output in problem.outputs
        )
        with on_machine(machine):
            parsed = _torch.Options.parse(str(make_options(options)))
            trial = _torch.Trial(
                problem.definition, parsed, "cpu", problem.inputs, list(results), False
            )
            trial.run()
        return results


def draw(case: Case, own: tc.MappingOptions, r: random.Random) -> tuple[list[str], int]:
    """Candidates of a search, and how many it left out by their reason."""
    definition = find_definition(case.text, case.entry)
    space = _torch.Space(
        definition, None, "cpu", list(case.make_inputs()), [], _torch.Options.parse(str(own))
    )
    found, refused = [space.candidate(0), *space.starts()], 0
    drawn: list[str] = []
    for _ in range(20 * DRAWN):
        kind = r.randrange(4)
        if kind == 0:
            made = space.draw(r.getrandbits(60))
        elif kind == 1:
            made = space.mutate(r.choice(found).index, r.getrandbits(60))
        elif kind == 2:
            made = space.cross([r.choice(found).index for _ in range(3)], r.getrandbits(60))
        else:
            made = r.choice(found)
        refused += made.reason is not None
        if made.reason is None:
            found.append(made)
            drawn.append(made.options.removeprefix("tc."))
    return r.sample(drawn, min(DRAWN, len(drawn))), refused


def check_plans(case: Case) -> Counter[str]:
    machine = case.options[0].partition(" on ")[2]
    suffix = f" on {machine}" if machine else ""
    with on_machine(machine):
        try:
            own = tc.compile(case.text, case.entry, None, *case.make_inputs())
        except tc.TCError:
            return Counter()  # the programs themselves are looked at elsewhere
        again = tc.compile(case.text, case.entry, own.options, *case.make_inputs())
        if again.options != own.options:
            raise Disagreement("plan", f"{own.options}\nbecame\n{again.options}")
        if case.seed % 4 == 0 and code(again) != code(own):
            raise Disagreement("code", f"another machine code by the same Plan\n{own.options}")
    counts: Counter[str] = Counter(programs=1)
    r = random.Random(case.seed)
    with on_machine(machine):
        drawn, refused = draw(case, own.options, random.Random(f"drawn {case.seed}"))
    counts["reasons"] += refused
    for options in [*(change(str(own.options), r) for _ in range(PLANS)), *drawn]:
        with on_machine(machine):
            try:
                tc.compile(case.text, case.entry, make_options(options), *case.make_inputs())
            except tc.CompilationError as error:
                reason = str(error)
                if "the plan" not in reason and "the options" not in reason:
                    raise Disagreement("refused", f"options {options}: {reason}") from error
                counts["reasons"] += 1
                continue
            except tc.TCError as error:
                # A search counts such a candidate as failed. Some are known, and `kinds.py` bounds
                # how many there may be.
                if options not in drawn or "internal error" not in str(error):
                    raise Disagreement("plan", f"options {options}: {error}") from error
                counts["internal errors"] += 1
                continue
        try:
            planned = replace(case, options=(options + suffix,))
            counts["plans"] += check(planned)["programs"]
            if options in drawn and not any(tensor.bad for tensor in case.inputs):
                fields = {each.name: getattr(planned, each.name) for each in dataclass_fields(Case)}
                counts["tried"] += check(Tried(**fields))["programs"]
        except Disagreement as error:
            # A Plan is for results that lie as they did: a call may bring others.
            if not re.search("CompilationError: the (plan|options) ", str(error)):
                raise
            counts["reasons"] += 1
    return counts
