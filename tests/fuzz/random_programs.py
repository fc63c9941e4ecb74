"""Random well-typed programs as text, with inputs that fit.

A statement is drawn with a plan: its indices, their ranges, and the sizes that tensors then need.
What the ranges really are is for range inference to say, so the plan only makes sensible programs
likely; the interpreter is asked after every statement, and one that it refuses is drawn again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from cases import MACHINES, Case, Tensor
from random_expressions import (
    EXACT_FUNCTIONS,
    FUNCTIONS,
    NARROW,
    RANKS,
    TYPES,
    Drawn,
    ExpressionGenerator,
    Known,
)

from tensor_comprehensions import TCError
from tensor_comprehensions.reference._functions import function_name
from tensor_comprehensions.reference._ranges import Ranges
from tensor_comprehensions.reference._resolve import resolve
from tensor_comprehensions.reference._syntax import parse
from tensor_comprehensions.reference._types import Typing

# Around whole vectors, and enough to be split into parts.
LONG = [15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 127, 130, 257]
VERY_LONG = [16384, 20011]
# What a statement may evaluate, and how often.
MOST_POINTS, ATTEMPTS = 150_000, 6


class Generator(ExpressionGenerator):
    def __init__(self, seed: int, prefix: str = "") -> None:
        super().__init__(seed, prefix)
        self.seed, self.name = seed, f"{prefix or 'random_'}{seed}"
        self.lines: list[str] = []
        self.results: list[str] = []
        self.initial: dict[str, Tensor] = {}
        self.definitions: list[str] = []

    # Programs.

    def make(self) -> Case:
        if not self.prefix and self.chance(0.08):
            self.called()
        count = self.r.randint(1, 4)
        while not self.lines or (len(self.lines) < count and self.counter < 400):
            self.statement(last=len(self.lines) + 1 >= count)
        if self.seed % 4 == 0:
            self.add_statement(self.functions, last=True)
        results = [self.declared(name) for name in self.results]
        text = "\n".join([*self.definitions, self.text(self.lines, results)])
        initial: tuple[Tensor, ...] = ()
        if self.initial:
            shapes = {t.name: t for t in self.targets}
            initial = tuple(
                self.initial.get(name)
                or Tensor(name, shapes[name].type, tuple(b - a for a, b in shapes[name].ranges))
                for name in self.results
            )
        return Case(self.seed, text, self.name, tuple(self.inputs), initial, self.options())

    def declared(self, result: str) -> str:
        """The name, with its type and sizes now and then."""
        known = next(t for t in self.targets if t.name == result)
        if not known.ranges or not self.chance(0.1):
            return result
        return f"{known.type}({', '.join(str(b - a) for a, b in known.ranges)}) {result}"

    def options(self) -> tuple[str, ...]:
        options = ["None" if self.seed % 2 else f"None on {self.r.choice(MACHINES)}"]
        if self.seed % 4 == 0:
            options.append("identity")
        if self.seed % 12 == 1:
            tiles = ", ".join(str(self.r.choice([1, 2, 3, 4, 5, 8, 16])) for _ in range(3))
            fusion = self.r.choice(["Max", "Min", "Preserve3Coincident"])
            inside = self.r.choice(["Max", "Min", "Preserve3Coincident"])
            unroll = self.r.choice([1, 2, 4])
            options.append(
                f"MappingOptions('naive').tile({tiles}).unroll({unroll})"
                f".outerScheduleFusionStrategy('{fusion}')"
                f".intraTileScheduleFusionStrategy('{inside}')"
            )
        return tuple(options)

    def text(self, lines: list[str], results: list[str]) -> str:
        parameters = []
        for t in self.inputs:
            sizes = "" if t.shape is None else f"({', '.join(self.sizes[t.name])})"
            parameters.append(f"{t.type}{sizes} {t.name}")
        head = f"def {self.name}({', '.join(parameters)}) -> ({', '.join(results)}) {{"
        return "\n".join([head, *(f"  {line}" for line in lines), "}"])

    def called(self) -> None:
        """A definition, and a call of it with inputs of its own; now and then of another size."""
        helper = Generator(self.r.randrange(10**6), prefix="helper_")
        helper.types = self.types
        case = helper.make()
        if case.initial:
            return
        targets = [self.fresh("T") for _ in helper.results]
        left = targets[0] if len(targets) == 1 else f"({', '.join(targets)})"
        arguments = []
        self.definitions.append(case.text)
        for t in case.inputs:
            if t.shape is None:
                arguments.append(self.scalar_argument(t.type))
                continue
            arguments.append(f"c{t.name}")
            longer = self.r.randrange(len(t.shape)) if t.shape and self.chance(0.05) else None
            shape = tuple(size + (d == longer) for d, size in enumerate(t.shape))
            self.add_input(Tensor(arguments[-1], t.type, shape, t.kind, t.bound))
        self.lines.append(f"{left} = {helper.name}({', '.join(arguments)})")
        known = {t.name: t for t in helper.targets}
        made = [known[result] for result in helper.results]
        for target, m in zip(targets, made):
            self.targets.append(Known(target, m.type, m.ranges))
            alike = [
                n
                for n, t in enumerate(case.inputs)
                if t.shape and t.kind != "index" and t.type == m.type
                if list(m.ranges) == [(0, size) for size in t.shape]
            ]
            if alike and self.chance(0.5):  # once more, and the result takes its argument's place
                arguments[self.r.choice(alike)] = target
                self.lines.append(f"{left} = {helper.name}({', '.join(arguments)})")
        self.results += targets

    def scalar_argument(self, wanted: str) -> str:
        """Of another type, as often as not, that can be converted."""
        types = {"bool": ["bool"], "u": ["int32", "int64", "uint8", wanted]}
        type_ = self.r.choice(
            types.get(wanted) or types.get(wanted[0]) or ["int32", "float", "half", "int8", wanted]
        )
        if self.chance(0.4):
            return self.literal(type_)
        name = self.fresh("s")
        self.add_input(Tensor(name, type_, None, "small"))
        return name

    def add_input(self, tensor: Tensor, sizes: list[str] | None = None) -> None:
        self.inputs.append(tensor)
        if tensor.shape is not None:
            self.sizes[tensor.name] = sizes or [
                f"{tensor.name}_{d}" for d in range(len(tensor.shape))
            ]

    # Statements.

    def statement(self, last: bool) -> None:
        kinds = {"contraction": 5, "general": 9, "scan": 1}
        if self.targets:
            kinds |= {"update": 4, "joined": 1, "copied": 1}
        kind = self.r.choices(list(kinds), kinds.values())[0]
        self.add_statement(getattr(self, kind), last)

    def add_statement(self, draw: Callable[[], tuple[str, str, str]], last: bool) -> None:
        counter = self.counter
        for _ in range(ATTEMPTS):
            line, target, operator = draw()
            if self.accept(line, target, operator, last):
                return
        self.counter = max(counter, self.counter)

    def contraction(self) -> tuple[str, str, str]:
        """A product of two tensors, or three, with their subscripts in any order."""
        r = self.r
        rows, columns = ([self.fresh("i") for _ in range(r.choice([1, 1, 2]))] for _ in "AB")
        batch = [self.fresh("i") for _ in range(r.choice([0, 0, 1]))]
        reduced = [self.fresh("r") for _ in range(r.choice([1, 2]))]
        ranges = {}
        for names, extents in (
            (rows, [1, 2, 5, 16, 17, 33]),
            (columns, [1, 2, 5, 16, 17, 33]),
            (batch, [1, 2, 3]),
            (reduced, [1, 2, 7, 16, 40]),
        ):
            for k, name in enumerate(names):
                ranges[name] = (0, r.choice(extents if k == 0 else [1, 2, 3]))
        left = rows + columns + batch
        r.shuffle(left)
        self.drawn = Drawn(left, reduced, ranges)
        type_ = self.draw_type()
        factors = [self.factor(rows + batch + reduced, type_)]
        factors.append(self.factor(columns + batch + reduced, type_))
        if self.chance(0.2):
            every = left + reduced
            factors.append(self.factor(r.sample(every, r.randint(1, 2)), type_))
        return self.finish(" * ".join(factors), self.reduction(type_, likely="+=!"))

    def factor(self, indices: list[str], type_: str) -> str:
        if type_ in ("int32", "int64", "float") and self.chance(0.1):
            narrow = self.r.choice(["int8", "int16"] if "int" in type_ else ["half", "bfloat16"])
            return f"{type_}({self.factor(indices, narrow)})"
        order = self.r.sample(indices, len(indices))
        return self.new_read(type_, order, plain=self.chance(0.7))

    def general(self) -> tuple[str, str, str]:
        r = self.r
        left = [self.fresh("i") for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4]))]
        reduced = [self.fresh("r") for _ in range(r.choice([0, 0, 0, 1, 1, 2, 3]))]
        ranges, points = {}, 1
        narrow = all(t in NARROW for t in self.types)
        for name in left:
            extents = [1, 2, 3, 5, 7, 16, 17, 33] if len(left) < 3 else [1, 2, 3, 5, 17]
            extents = [1, 2, 3, 7] if narrow and reduced else extents
            low = r.choice([0] * 9 + [1, 2, -2])
            ranges[name] = (low, low + r.choice(extents))
            points *= ranges[name][1] - low
        for name in reduced:
            ranges[name] = (0, r.choice([1, 2, 3, 5, 8]))
        if reduced and points <= 600 and self.chance(0.5):
            # The last index mostly walks through consecutive elements.
            name = r.choice([reduced[-1], r.choice(reduced)])
            others = [ranges[i][1] for i in reduced if i != name]
            for extent in others:
                points *= extent
            if points * max(LONG) <= MOST_POINTS:
                very = points <= 4 and self.chance(0.1)
                ranges[name] = (0, r.choice(VERY_LONG if very else LONG))
        self.drawn = Drawn(left, reduced, ranges)
        type_ = self.draw_type()
        if self.chance(0.12):
            let = self.draw_type()
            self.drawn.lets.append((self.fresh("x"), let, self.expression(let, 1)))
        body = self.expression(type_, r.randint(1, 3))
        for name in left + reduced:
            if name not in self.drawn.mentioned and self.chance(0.9):
                body = self.meet(body, self.new_read(type_, [name]), type_)
        if self.chance(0.05) and left:
            name = r.choice(left)
            self.new_read("float", [name])
            self.drawn.exists.append(self.drawn.inputs[-1].name)
        operator = self.reduction(type_) if reduced else self.plain(type_)
        if left and reduced and type_ != "bool" and operator in ("+=!", "*=!") and self.chance(0.1):
            body = self.by_residue(body, left, reduced, "0" if operator == "+=!" else "1")
        return self.finish(body, operator)

    def functions(self) -> tuple[str, str, str]:
        """A built-in function and a conversion, the next of each for the next seed."""
        r, turn = self.r, self.seed // 4
        left = [self.fresh("i") for _ in range(r.choice([1, 2]))]
        self.drawn = Drawn(left, [], {name: (0, r.choice([1, 2, 5, 17])) for name in left})
        names = [*FUNCTIONS, *EXACT_FUNCTIONS, "isnan", "isinf"]
        name, converted = names[turn % len(names)], list(TYPES)[turn % len(TYPES)]
        type_ = r.choice(["float", "float", "double", "half"])
        if turn % 8 == 5:
            name, type_ = "nextafter", r.choice(["half", "bfloat16"])
        arguments = [self.new_read(type_, left) for _ in range(RANKS[function_name(name)])]
        other = f"{type_}({converted}({self.new_read(r.choice(list(TYPES)), left)}))"
        value = f"{name}({', '.join(arguments)})"
        if name in ("isnan", "isinf"):
            value = f"({value} ? 0.5 : 2)"
        body = f"{value} {r.choice('+-*')} {other}"
        tensors = [t for t in self.inputs if t.shape]
        if tensors and turn % 3 == 0:
            body += f" + {type_}({r.choice(tensors).name}.0)"
        return self.finish(body, "=")

    def scan(self) -> tuple[str, str, str]:
        """A reduction over what lies up to an index of the results, or from it on."""
        r = self.r
        rows = [self.fresh("i") for _ in range(r.choice([0, 1, 1, 2]))]
        along, reduced = self.fresh("i"), [self.fresh("r") for _ in range(r.choice([1, 1, 2]))]
        ranges = {name: (0, r.choice([1, 2, 5, 17])) for name in rows}
        extent = r.choice([8, 16, 17, 33, 40, 70])
        low = r.choice([0, 0, 0, 1, -2])
        ranges[along] = (low, low + max(1, extent + r.choice([0, 0, 0, -3, 4])))
        ranges |= {name: (0, r.choice([1, 2, 5])) for name in reduced}
        ranges[reduced[0]] = (0, extent)
        left = [*rows, along]
        r.shuffle(left)
        self.drawn = Drawn(left, reduced, ranges)
        type_ = self.draw_type()
        read = [*r.sample(rows, r.randint(0, len(rows))), *reduced]
        body = self.new_read(type_, r.sample(read, len(read)), plain=self.chance(0.7))
        if self.chance(0.3):
            body = self.meet(body, self.new_read(type_, [reduced[0]]), type_)
        if self.chance(0.1):
            body = self.meet(body, self.new_read(type_, [along]), type_)
        operator = self.reduction(type_, likely="+=!")
        otherwise = self.literal(type_)
        if type_ != "bool" and operator.rstrip("!=") in "+*" and self.chance(0.9):
            otherwise = "0" if operator.startswith("+") else "1"
        sides = [reduced[0], f"{along} + {r.choice([0, 0, 0, 1, -1, 3, -3])}".replace("+ -", "- ")]
        r.shuffle(sides)
        compare = f"{sides[0]} {r.choice(['<=', '<', '>=', '>'])} {sides[1]}"
        if self.chance(0.1):
            compare = f"!({compare})"
        if self.chance(0.2):
            compare += f" && {self.condition(1)}"
        return self.finish(f"({compare} ? {body} : {otherwise})", operator)

    def by_residue(self, body: str, left: list[str], reduced: list[str], otherwise: str) -> str:
        """Terms that only count where two indices fit, as with strides."""
        r = self.r
        difference = f"{r.choice(left)} {r.choice('-+')} {r.choice(reduced)}"
        if self.chance(0.3):
            difference += f" + {r.randint(1, 4)}"
        divisor = r.choice([2, 2, 3, 5])
        rest = r.choice([0, 0, 1])
        return f"(({difference}) % {divisor} == {rest} ? {body} : {otherwise})"

    def update(self) -> tuple[str, str, str]:
        """Of a tensor that has been assigned: in place, or accumulated into."""
        target = self.r.choice(self.targets)
        left = [self.fresh("i") for _ in target.ranges]
        reduced = [self.fresh("r")] if self.chance(0.4) else []
        ranges = {
            **dict(zip(left, target.ranges)),
            **{n: (0, self.r.choice([2, 5, 16])) for n in reduced},
        }
        self.drawn = Drawn(left, reduced, ranges, target=target.name)
        body = self.expression(target.type, 1)
        for name in reduced:
            if name not in self.drawn.mentioned:
                body = self.meet(body, self.new_read(target.type, [name]), target.type)
        if reduced or self.chance(0.5):
            operators = ["+=", "*="] if target.type in NARROW else ["+=", "*=", "min=", "max="]
            operator = self.r.choice(
                operators + (["&&=", "||="] * 3 if target.type == "bool" else [])
            )
        else:
            operator = "="
            own = f"{target.name}({', '.join(left)})" if left else target.name
            body = self.meet(own, body, target.type)
            if self.chance(0.4):
                body = self.meet(own, body, target.type)
            if self.chance(0.2) and target.type != "bool":
                body = f"({own} {self.r.choice(['<', '>', '=='])} {own} * {own} ? {own} : {body})"
        return self.finish(body, operator, target.name)

    def joined(self) -> tuple[str, str, str]:
        """An extension of a tensor by a range behind its own."""
        target = self.r.choice(self.targets)
        if not target.ranges:
            return self.general()
        left = [self.fresh("i") for _ in target.ranges]
        ranges = dict(zip(left, target.ranges))
        name, (_, high) = left[-1], target.ranges[-1]
        ranges[name] = (high, high + self.r.choice([1, 3, 8]))
        self.drawn = Drawn(left, [], ranges, where=set(left), target=target.name)
        body = self.meet(
            self.new_read(target.type, left), self.expression(target.type, 1), target.type
        )
        return self.finish(body, "=", target.name)

    def copied(self) -> tuple[str, str, str]:
        """A part of a tensor that has been assigned, often the only one that is used."""
        source = self.r.choice(self.targets)
        left, places, ranges = [], [], {}
        for low, high in source.ranges:
            first = min(low + self.r.choice([0, 0, 1, 2]), high - 1)
            last = max(first + 1, high - self.r.choice([0, 0, 1]))
            offset = self.r.choice([0, first, 1])
            name = self.fresh("i")
            left.append(name)
            places.append(f"{name} + {offset}" if offset > 0 else name)
            offset = max(offset, 0)
            ranges[name] = (first - offset, last - offset)
        self.drawn = Drawn(left, [], ranges, where=set(left))
        return self.finish(f"{source.name}({', '.join(places)})" if left else source.name, "=")

    def plain(self, type_: str) -> str:
        return self.r.choice(["="] * 8 + ["+=!", "max=!"])

    def reduction(self, type_: str, likely: str | None = None) -> str:
        operators = ["+=!", "+=!", "*=!", "min=!", "max=!"] + [likely] * 6 * (likely is not None)
        if type_ in NARROW and len(self.drawn.left) > 1:
            operators = ["+=!", "+=!", "*=!"]
        if type_ == "bool":
            operators += ["&&=!", "||=!"] * 2
        if type_ != "bool" and self.chance(0.15):
            operators = ["argmin=!", "argmax=!", "argmin=", "argmax="]
        operator = self.r.choice(operators)
        if self.chance(0.06) and not operator.startswith("arg"):
            return operator.rstrip("!")  # into what the caller passes
        return operator

    def finish(self, body: str, operator: str, target: str | None = None) -> tuple[str, str, str]:
        d = self.drawn
        target = target or self.fresh("T")
        left = f"{target}({', '.join(d.left)})" if d.left else target
        # Where nothing uses it, only the compiler refuses what divides by 0 or by an index that
        # stands nowhere else.
        used = " ".join([body, *(text for _, _, text in d.lets)])
        divides = re.compile(r"[%/] (?!\(?-?[1-9])")
        d.lets = [let for let in d.lets if let[0] in used or not divides.search(let[2])]
        return f"{left} {operator} {body}", target, operator

    def accept(self, line: str, target: str, operator: str, last: bool) -> bool:
        """Adds a statement that the interpreter takes, with ranges where it asks for them."""
        d = self.drawn
        before = len(self.inputs), dict(self.sizes)
        used = [t for t in d.inputs if re.search(rf"\b{t.name}\b", line + str(d.lets))]
        used += [t for t in d.inputs if t not in used and t.name in d.exists]
        for t in used:
            self.add_input(t, d.sizes.get(t.name))
        for _ in range(len(d.indices) + 1):
            clauses = [f"{n} in {self.bound(*d.ranges[n])}" for n in d.indices if n in d.where]
            clauses += [f"{n} = {text}" for n, _, text in d.lets]
            for name in d.exists:
                clauses.append(f"exists {name}({d.left[0]})")
            full = line + (f" where {', '.join(clauses)}" if clauses else "")
            try:
                known = self.examine([*self.lines, full], target)
            except TCError as error:
                missing = re.search(r"(\w+) has no range", str(error))
                if missing and missing.group(1) in d.ranges:
                    d.where.add(missing.group(1))
                    continue
                break
            if known is None:
                break
            self.take(full, known, operator, last)
            return True
        self.inputs, self.sizes = self.inputs[: before[0]], before[1]
        return False

    def bound(self, low: int, high: int) -> str:
        """A range, its end written by the size of a tensor where one fits."""
        sizes = [
            text
            for t in self.inputs
            for size, text in zip(t.shape or (), self.sizes.get(t.name, []))
            if size == high and not text.isdigit()
        ]
        end = self.r.choice(sizes) if sizes and self.chance(0.3) else f"{high}"
        return f"{low}:{end}" if low >= 0 else f"(-{-low}):{end}"

    def examine(self, lines: list[str], target: str) -> list[Known] | None:
        """All tensors assigned, with their inferred ranges; None where these are too large."""
        text = "\n".join([*self.definitions, self.text(lines, [])])
        program = resolve(parse(text), self.name)
        typing = Typing(program)
        sizes, scalars, shapes = {}, {}, {}
        for t in self.inputs:
            if t.shape is None:
                if "int" in t.type:
                    scalars[t.name] = t.make(self.seed)
                shapes[t.name] = ()
                continue
            shapes[t.name] = t.shape
            sizes.update(zip(self.sizes[t.name], t.shape))
        ranges = Ranges(program, sizes, scalars, shapes)
        for s in program.statements:
            typing.stored(s)
        for found in ranges.statements:
            points = 1
            for low, high in found.values():
                points *= high - low
            if points > 2 * MOST_POINTS or points == 0:
                return None
        names = {t.name for t in self.targets} | {target}
        return [Known(name, typing.types[name], ranges.dimensions[name]) for name in names]

    def take(self, line: str, known: list[Known], operator: str, last: bool) -> None:
        self.lines.append(line)
        assigned = {t.name for t in self.targets}
        self.targets = sorted(known, key=lambda t: t.name)
        for t in known:
            if t.name in assigned:
                continue
            fresh = operator == "=" or operator.endswith("!") or operator.startswith("arg")
            if not fresh:
                shape = tuple(b - a for a, b in t.ranges)
                self.initial[t.name] = Tensor(t.name, t.type, shape)
            if not fresh or last or self.chance(0.5):
                self.results.append(t.name)
        if not self.results:
            self.results.append(self.targets[0].name)
        # A later statement may have made a result larger.
        for t in known:
            if t.name in self.initial:
                shape = tuple(b - a for a, b in t.ranges)
                self.initial[t.name] = Tensor(t.name, t.type, shape)


def make_case(seed: int) -> Case:
    return spoil(Generator(seed).make())


def spoil(case: Case) -> Case:
    """Some programs with indices that are data get a bad one."""
    # Drawn apart, so that the programs of a seed stay the same.
    draw = random.Random(f"spoil {case.seed}")
    indices = [k for k, t in enumerate(case.inputs) if t.kind == "index"]
    if not indices or draw.random() > 0.3:
        return case
    inputs = list(case.inputs)
    place = draw.choice(indices)
    inputs[place] = replace(inputs[place], bad=True)
    return replace(case, inputs=tuple(inputs))
