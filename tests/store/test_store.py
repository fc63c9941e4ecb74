"""Files of operators: what a saved model calls, registered again in other processes."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pickle
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from stores import (
    LAYERS,
    PROTO,
    SQUARE,
    SQUARE_GRAD,
    cache_error,
    edited,
    named,
    protoc,
)
from torch.fx.experimental.proxy_tensor import make_fx

import tensor_comprehensions as tc
from tensor_comprehensions import _torch
from tensor_comprehensions.__main__ import main


def in_fresh_process(script: str, *arguments: object) -> str:
    package = Path(tc.__file__).resolve().parent.parent
    path = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- saved models in fresh processes


class Model(torch.nn.Module):
    """Definitions in all the places where modules hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.t = tc.define(LAYERS, tc.MappingOptions("naive").tile(4, 8))
        self.functions = {"double": [self.t.store_double]}
        self.layer = tc.nn.Lambda(
            "def store_scale(float(N, C) x, float(C) s) -> (y) { y(n, c) = x(n, c) * s(c) }", C=5
        )
        self.first = torch.nn.Parameter(torch.randn(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(self.t.store_hidden(x, self.first))
        y = self.functions["double"][0](y.reshape(-1)).reshape(y.shape)
        return y + tc.einsum("ij, kj -> ik", y, y).sum()


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tc.store_double(x.flatten()) + 1


LOADED = """
import json, sys, warnings
import torch
import tensor_comprehensions as tc

warnings.simplefilter("error", UserWarning)
folder = sys.argv[1]
x, weight = torch.load(f"{folder}/inputs.pt")
loaded = tc.load(f"{folder}/model.tc.pb")
tc.load(f"{folder}/model.tc.pb")
results = {
    "export": torch.export.load(f"{folder}/model.pt2").module()(x),
    "training": torch.export.load(f"{folder}/training.pt2").module()(x, weight),
    "batches": torch.export.load(f"{folder}/batches.pt2").module()(x),
    "script": torch.jit.load(f"{folder}/scripted.pt")(x),
    "package": torch._inductor.aoti_load_package(f"{folder}/package.pt2")(x),
}
(double,) = (t for t in loaded if hasattr(t, "store_double"))
results["called"] = double.store_double(x.flatten())
results["by name"] = torch.ops.tc.store_double(x.flatten())
(square,) = (t for t in loaded if hasattr(t, "store_square"))
y = torch.arange(4.0).requires_grad_()
square.differentiable("store_square")(y).sum().backward()
results["given backward"] = y.grad
y = torch.arange(4.0).requires_grad_()
double.differentiable("store_double")(y).sum().backward()
results["derived backward"] = y.grad
results["vmap"] = torch.vmap(double.store_double)(x)
with torch.autocast("cpu", torch.bfloat16):
    results["autocast"] = double.store_double(x.flatten().bfloat16())
results["fake"] = torch.empty(double.store_double(torch.empty(7, device="meta")).shape)
results["compiled"] = torch.compile(double.store_double, backend="aot_eager")(x.flatten())
torch.save(results, f"{folder}/results.pt")
print(json.dumps([t.__reduce__()[1][0] for t in loaded]))
"""


@pytest.mark.slow
def test_a_fresh_process_runs_what_was_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model().eval()
    pair = tc.make_autograd(
        tc.define(SQUARE).store_square, tc.define(SQUARE_GRAD).store_square_grad
    )
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    torch.save((x, weight), tmp_path / "inputs.pt")
    derived = tc.make_autograd(model.t.store_hidden)

    def train(x: torch.Tensor, weight: torch.Tensor) -> tuple:
        x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
        return torch.autograd.grad(pair(derived(x, weight).flatten()).sum(), (x, weight))

    training = torch.export.export(make_fx(train)(x, weight), (x, weight))
    batched = make_fx(torch.vmap(model.t.store_double))(x)
    batches = torch.export.export(batched, (x,))
    scripted = torch.jit.script(Scripted())
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        package = str(tmp_path / "package.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        wanted = {"export": model(x), "package": model(x)}
    torch.export.save(program, tmp_path / "model.pt2")
    torch.export.save(training, tmp_path / "training.pt2")
    torch.export.save(batches, tmp_path / "batches.pt2")
    scripted.save(str(tmp_path / "scripted.pt"))

    file = tmp_path / "model.tc.pb"
    tc.save(file, program, scripted, batches)
    tc.save(file, model, pair, training)
    doubled = 2 * x.flatten()
    wanted |= {
        "training": train(x, weight),
        "batches": 2 * x,
        "script": doubled + 1,
        "called": doubled,
        "by name": doubled,
        "given backward": 20 * torch.arange(4.0),
        "derived backward": torch.full((4,), 2.0),
        "vmap": 2 * x,
        "autocast": 2 * x.flatten().bfloat16().float(),
        "fake": torch.empty(7),
        "compiled": doubled,
    }
    sources = json.loads(in_fresh_process(LOADED, tmp_path))
    results = torch.load(tmp_path / "results.pt")
    assert results.keys() == wanted.keys()
    for name, value in results.items():
        if name == "fake":
            assert value.shape == wanted[name].shape
            continue
        torch.testing.assert_close(value, wanted[name], rtol=1e-5, atol=1e-5, msg=name)
    assert LAYERS in sources
    targets = {str(node.target) for node in training.graph.nodes}
    assert any("tc_grad.store_hidden_grad__" in target for target in targets), targets
    assert any("tc.store_square_grad__" in target for target in targets), targets


MISSING = """
import sys, warnings
import torch
import tensor_comprehensions
folder, name = sys.argv[1:]
class Scripted(torch.nn.Module):
    def forward(self, x):
        return 0
for load in (
    lambda: torch.jit.load(f"{folder}/scripted.pt"),
    lambda: torch._inductor.aoti_load_package(f"{folder}/package.pt2"),
    lambda: torch.export.load(f"{folder}/program.pt2"),
    lambda: getattr(torch.ops.tc, name),
):
    try:
        load()
    except Exception as error:
        print("CAUGHT", type(error).__name__, str(error).replace(chr(10), " "))
"""


@pytest.mark.slow
def test_without_load_pytorch_names_what_is_missing(tmp_path: Path) -> None:
    """What docs/pytorch.md quotes: PyTorch's own words, and the operator's name in them."""
    t = tc.define(SQUARE)

    class Squared(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return t.store_square(x)

    torch.jit.trace(Squared(), (torch.ones(3),)).save(str(tmp_path / "scripted.pt"))
    program = torch.export.export(Squared(), (torch.ones(3),))
    torch.export.save(program, tmp_path / "program.pt2")
    package = str(tmp_path / "package.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=package)
    name = t.store_square.name.partition("::")[2]
    lines = in_fresh_process(MISSING, tmp_path, name).splitlines()
    script, aot, export, attribute = (line for line in lines if line.startswith("CAUGHT"))
    assert f"Unknown builtin op: tc::{name}" in script
    assert f"Could not find schema for tc::{name}" in aot
    assert "We ran into an error when deserializing the saved file" in export
    assert f"'_OpNamespace' 'tc' object has no attribute '{name}'" in attribute


# ---- what is in a file


def shown(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["show", str(file)]) == 0
    return capsys.readouterr().out


def test_other_programs_read_and_write_the_form(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    options = tc.MappingOptions("mlp").tile(4, 0).matchLibraryCalls(False).unroll(3)
    options.libraryCalls(None).cluster("S0").tile("task", n=4)
    t = tc.define(LAYERS, options, namespace="store_wire")
    tc.save(file, t, tc.make_autograd(t.store_double))
    data = file.read_bytes()
    text = protoc("decode", data).decode()
    assert 'format: "tensor_comprehensions"\nversion: 1\n' in text
    assert 'namespace: "store_wire"' in text
    assert "# What the comments say is kept." in text
    assert f'operator_name: "{t.store_double.name.partition("::")[2]}"' in text
    assert "tile: 4\n      tile: 0\n" in text and "unroll: 3" in text
    assert "match_library_calls: false" in text and 'preset: "mlp"' in text
    assert text.count("derivative {") == 1 and "derived: true" in text
    # Every field of the options is there, and there is one for each field in options.h.
    (message,) = re.findall(r"message MappingOptions \{(.*?)\n\}", PROTO.read_text(), re.S)
    fields = re.findall(r"(\w+) = \d+(?: \[packed = true\])?;", message)
    for field in fields:
        assert re.search(rf"^      {field}(: | {{)", text, re.M), field
    header = (PROTO.parent.parent / "plan/options/options.h").read_text()
    (struct,) = re.findall(r"struct MappingOptions \{(.*?)\n\};", header, re.S)
    members = re.findall(r"^  (?!bool operator)[\w:<>]+ (\w+)(?: = .*)?;", struct, re.M)
    # Readers of before have to be told that something decides about loops.
    assert sorted([*members, "automatic"]) == sorted(fields)
    # And back: the same bytes.
    assert protoc("encode", text.encode()) == data
    assert zlib.crc32(data[:-5]) == int.from_bytes(data[-4:], "little")


def test_options_are_what_they_were(tmp_path: Path) -> None:
    chosen = [None, "pointwise", tc.MappingOptions("naive").tile(5).mapToThreads(3, 2)]
    for k, options in enumerate(chosen):
        file = tmp_path / f"{k}.tc.pb"
        t = tc.define(SQUARE, options, namespace=f"store_options_{k}")
        tc.save(file, t)
        (text,) = _torch.Store.read(str(file), False).texts()
        wanted = tc.MappingOptions() if options is None else options
        wanted = tc.MappingOptions(wanted) if isinstance(wanted, str) else wanted
        assert tc.MappingOptions.parse(text.definitions[0].options) == wanted
        assert tc.load(file)[0].store_square is t.store_square


def test_each_operator_is_saved_once(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    t = tc.define(LAYERS, namespace="store_once")
    other = tc.define(LAYERS, "naive", namespace="store_once")
    tc.save(file, t.store_double, t, t, tc.make_autograd(t.store_double))
    first = file.read_bytes()
    assert [x.source for x in _torch.Store.read(str(file), False).texts()] == [LAYERS]
    tc.save(file, t)
    tc.save(file, t.store_hidden)
    assert file.read_bytes() == first
    tc.save(file, other)
    loaded = tc.load(file)
    assert [x.store_double is y.store_double for x, y in zip(loaded, (t, other))] == [True, True]
    # A derivative that is said later belongs to what is there.
    tc.save(file, tc.make_autograd(other.store_hidden, t.store_hidden))
    _, second = _torch.Store.read(str(file), False).texts()
    assert second.definitions[0].backward == t.store_hidden.name
    assert tc.load(file)[1].differentiable("store_hidden")._parts[1] is t.store_hidden
    again = pickle.loads(pickle.dumps(tc.load(file)[1]))
    assert again.differentiable("store_hidden")._parts[1] is t.store_hidden


def test_gradients_and_batches_that_were_made_are_saved(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    t = tc.define("def store_cube(float(N) a) -> (b) { b(i) = a(i) * a(i) * a(i) }")
    f = tc.make_autograd(t.store_cube)
    torch.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.ones(2, 3))
    tc.save(file, t)
    namespaces = {text.namespace for text in _torch.Store.read(str(file), False).texts()}
    assert namespaces == {"tc", "tc_grad", "tc_batch"}
    assert len(tc.load(file)) == 1  # the others are no texts of the user's


def test_definitions_that_keep_more_are_saved(tmp_path: Path) -> None:
    """Graphs for training hold what autograd ran, with the values that the derivative reads."""
    file = tmp_path / "a.tc.pb"
    t = tc.define("def store_row(float(N, M) a) -> (b) { s(n) +=! a(n, m)  b(n) = s(n) * s(n) }")
    f = tc.make_autograd(t.store_row)
    f(torch.ones(2, 3, requires_grad=True)).sum().backward()
    tc.save(file, t)
    namespaces = {text.namespace for text in _torch.Store.read(str(file), False).texts()}
    assert namespaces == {"tc", "tc_keep", "tc_grad"}


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.tc.pb"
    t = tc.define(LAYERS, "naive", namespace="store_show")
    tc.save(file, t, tc.make_autograd(t.store_double))
    said = shown(file, capsys)
    name = t.store_double.name.replace("::", ".")
    assert "# What the comments say is kept." in said
    assert f'  torch.ops.{name}  tc.MappingOptions("naive")  backward derived\n' in said
    assert main(["show", str(tmp_path / "none.tc.pb")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_name_of_another_version_is_registered_too(tmp_path: Path) -> None:
    """What canonical texts look like may change; graphs hold the names of their time."""
    file = tmp_path / "a.tc.pb"
    t = tc.define(named("store_former", 3), namespace="store_former")
    tc.save(file, t)
    now = t.store_former.name.partition("::")[2]
    former = "store_former__0123456789abcdef"
    edited(file, now, former)
    (loaded,) = tc.load(file)
    assert loaded.store_former is t.store_former
    call = getattr(torch.ops.store_former, former)
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 3.0))
    tc.load(file)

    class Calls(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return call(x)

    tc.save(tmp_path / "b.tc.pb", torch.export.export(Calls(), (torch.ones(2),)))
    (text,) = _torch.Store.read(str(tmp_path / "b.tc.pb"), False).texts()
    assert text.definitions[0].operator_name == former
    edited(file, former, "relu")
    with pytest.raises(tc.CacheError, match="the operator 'relu' for store_former"):
        tc.load(file)


# ---- define(..., cache=)


def test_define_takes_options_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    tuned = tc.MappingOptions("naive").tile(7)
    missing = tc.define(SQUARE, namespace="store_cache_0", cache=file)
    assert missing.store_square.options == tc.MappingOptions()
    file.touch()
    empty = tc.define(SQUARE, namespace="store_cache_1", cache=str(file))
    assert empty.store_square.options == tc.MappingOptions()
    tc.save(file, tc.define(SQUARE, "pointwise", namespace="store_cache_2"))
    tc.save(file, tc.define(SQUARE, tuned, namespace="store_cache_2"))
    renamed = "def other(float(K) x) -> (y) { y(k) = x(k) * x(k) }" + named("more")
    found = tc.define(renamed, namespace="store_cache_3", cache=file)
    assert found.other.options == tuned
    assert found.more.options == tc.MappingOptions()
    assert torch.equal(found.other(torch.full((9,), 3.0)), torch.full((9,), 9.0))
    assert pickle.loads(pickle.dumps(found)).other is found.other
    assert pickle.loads(pickle.dumps(found.other)) is found.other
    given = tc.define(renamed, "mlp", namespace="store_cache_3", cache=file)
    assert given.other.options == tc.MappingOptions("mlp")
    file.write_bytes(b"something else")
    with pytest.raises(tc.CacheError, match="is no file that tensor_comprehensions"):
        tc.define(renamed, namespace="store_cache_4", cache=file)


# ---- files and other processes


def forked(action: Callable[[], None]) -> int:
    """Another process; ``action`` must not compute, since PyTorch's threads are not in it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return child


def prepared(prefix: str, count: int) -> list[tc.TC]:
    return [tc.define(named(f"{prefix}_{k}", k + 1), namespace="store_many") for k in range(count)]


def test_savers_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    groups = [prepared(f"saver_{group}", 8) for group in range(4)]

    def save_all(group: list[tc.TC]) -> None:
        for t in group:
            tc.save(file, t)

    children = [forked(lambda group=group: save_all(group)) for group in groups]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    names = {d.name for x in _torch.Store.read(str(file), False).texts() for d in x.definitions}
    assert names == {f"saver_{group}_{k}" for group in range(4) for k in range(8)}
    assert os.listdir(tmp_path) == ["a.tc.pb"]


def test_killed_savers_leave_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    texts = prepared("killed", 40)
    tc.save(file, texts[0])
    generator, saved = random.Random(0), 1

    def save_all() -> None:
        for t in texts:
            tc.save(file, t)

    for _ in range(20):
        child = forked(save_all)
        time.sleep(generator.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        now = len(_torch.Store.read(str(file), False).texts())
        assert now >= saved
        saved = now
    tc.save(file, *texts)
    assert len(_torch.Store.read(str(file), False).texts()) == 40
    assert os.listdir(tmp_path) == ["a.tc.pb"]


SAVED_BY_ANOTHER = """
import os, sys, torch
import tensor_comprehensions as tc
t = tc.define("def other_user(float(N) a) -> (b) { b(i) = 2 * a(i) }")
if os.getuid() == 0:  # for whom everything may be written
    os.setgid(65534)
    os.setuid(65534)
tc.save(sys.argv[1], t)
"""


def test_a_lock_of_another_user_is_in_nobodys_way() -> None:
    """Who was killed while saving has left it."""
    with tempfile.TemporaryDirectory() as folder:  # where everybody may write
        os.chmod(folder, 0o777)
        lock = Path(folder) / "a.tc.pb.lock"
        lock.touch()
        lock.chmod(0o444)
        in_fresh_process(SAVED_BY_ANOTHER, Path(folder) / "a.tc.pb")
        assert os.listdir(folder) == ["a.tc.pb"]


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    (tmp_path / "a.tc.pb.lock").symlink_to("elsewhere")
    said = cache_error(lambda: tc.save(file, *prepared("followed", 1)))
    assert "Too many levels of symbolic links" in said
    assert os.listdir(tmp_path) == ["a.tc.pb.lock"]


def test_waiting_for_a_lock_is_told_of_and_may_be_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, lock = tmp_path / "a.tc.pb", tmp_path / "a.tc.pb.lock"
    texts = prepared("waiting", 1)
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        late = threading.Timer(60, fcntl.flock, (held, fcntl.LOCK_UN))
        late.start()
        warned = caplog.at_level(logging.WARNING, "tensor_comprehensions")
        with warned, pytest.raises(KeyboardInterrupt):
            tc.save(file, *texts)
        assert late.is_alive()
        late.cancel()
        (line,) = [r.getMessage() for r in caplog.records if "waiting for" in r.getMessage()]
        assert str(lock) in line and "another process" in line
        assert not file.exists()
        threading.Timer(0.2, fcntl.flock, (held, fcntl.LOCK_UN)).start()
        tc.save(file, *texts)
    assert os.listdir(tmp_path) == ["a.tc.pb"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "a.tc.pb"
    tc.save(file, prepared("full", 1)[0])
    before = file.read_bytes()
    message = tmp_path / "message"
    more = prepared("fuller", 20)

    def save() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1, most))
        said = cache_error(lambda: tc.save(file, *more))
        message.write_text(said)

    assert os.waitpid(forked(save), 0)[1] == 0
    assert message.read_text() == (
        f"cannot write '{file}': File too large; what was there before is still there"
    )
    assert file.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.tc.pb", "message"]


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real" / "a.tc.pb", tmp_path / "link.tc.pb"
    first, second = prepared("linked", 2)
    tc.save(file, first)
    file.chmod(0o640)
    link.symlink_to(file)
    tc.save(link, second)
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o640
    assert len(tc.load(file)) == 2


def test_links_to_what_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that an administrator chose, say, of which a link in the checkout knows."""
    (tmp_path / "real").mkdir()
    file, first, second = tmp_path / "real" / "a.tc.pb", tmp_path / "first", tmp_path / "second"
    first.symlink_to("second")
    second.symlink_to("real/a.tc.pb")
    monkeypatch.chdir(tmp_path / "real")
    tc.save("../first", *prepared("dangling", 2))
    assert first.is_symlink() and second.is_symlink()
    assert file.is_file() and not file.is_symlink()
    assert len(tc.load(first)) == 2
    assert sorted(os.listdir(tmp_path / "real")) == ["a.tc.pb"]
    loop, nowhere = tmp_path / "loop", tmp_path / "nowhere"
    loop.symlink_to("loop")
    nowhere.symlink_to("none/a.tc.pb")
    for link, words in ((loop, "Too many levels"), (nowhere, "No such file or directory")):
        with pytest.raises(tc.CacheError, match=f"cannot write '{link}': {words}"):
            tc.save(link, *prepared("dangling", 2))
        assert link.is_symlink()
