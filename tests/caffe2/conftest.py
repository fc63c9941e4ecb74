"""Loads the operators into Caffe2.

TC_CAFFE2_LIBRARY is what caffe2-build printed, TC_PYTHON the Python that has tensor_comprehensions.
"""

from __future__ import annotations

import os

import pytest
from caffe2.python import dyndep, workspace

workspace.GlobalInit(["caffe2", "--caffe2_log_level=4"])
dyndep.InitOpsLibrary(os.environ["TC_CAFFE2_LIBRARY"])


@pytest.fixture(autouse=True)
def _empty_workspace():
    workspace.ResetWorkspace()
