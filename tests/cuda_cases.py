"""The programs that tests/cpp/cuda_printer_test prints, and their launches under the emulator."""

import json
import os
import pathlib
import subprocess

import emulator
import pytest
import torch

ROOT = pathlib.Path(__file__).parent.parent
DTYPES = {
    "bool": torch.bool,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def find_program(name):
    """A test program: in TC_CPP_TESTS, or the newest under build/."""
    if "TC_CPP_TESTS" in os.environ:
        return pathlib.Path(os.environ["TC_CPP_TESTS"]) / name
    found = [p for p in ROOT.glob(f"build/**/{name}") if p.is_file()]
    if not found:
        pytest.skip(f"{name} is not built: configure with -DTC_BUILD_TESTS=ON")
    return max(found, key=lambda p: p.stat().st_mtime)


@pytest.fixture(scope="session")
def cases(tmp_path_factory):
    """The directory of the texts."""
    program = find_program("cuda_printer_test")
    directory = tmp_path_factory.mktemp("cuda")
    run = subprocess.run([program, "--print", directory], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return directory


class Case:
    """A printed program: runs its launches over named tensors."""

    def __init__(self, directory, name):
        self.module = emulator.compile((directory / f"{name}.cu").read_text())
        self.description = json.loads((directory / f"{name}.json").read_text())
        self.launches = {x["kernel"]: x for x in self.description["launches"]}

    def zeros(self, kernel):
        """A tensor for every buffer the launch writes."""
        return {
            a["name"]: torch.zeros(a["elements"], dtype=DTYPES[a["type"]])
            for a in self.launches[kernel]["args"]
            if a["written"]
        }

    def run(self, kernel, tensors, sanitize=False, described_as=None, module=None):
        """Also a changed kernel of another module, that is launched as one of these is."""
        launch = self.launches[described_as or kernel]
        args = []
        for a in launch["args"]:
            tensor = tensors[a["name"]]
            assert tensor.numel() >= a["elements"] and tensor.dtype == DTYPES[a["type"]]
            args.append(tensor)
        for s in launch["scalars"]:
            value = torch.tensor(tensors[s["name"]], dtype=DTYPES[s["type"]])
            args.append(value.numpy()[()])
        (module or self.module).launch(
            kernel,
            launch["grid"],
            launch["block"],
            args,
            launch["shared_bytes"],
            sanitize=sanitize,
        )
