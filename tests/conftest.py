"""What all tests share: the installed package, the reference models, quiet hypothesis."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from support.places import FIXTURES, ROOT, find_shared_dir

# The tests are for the installed package. ``python -m pytest`` puts the working directory first on
# sys.path, where the checkout's nnconv/ lacks the folders that the wheel maps into it.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
# The same holds for every Python that a test starts.
os.environ["PYTHONSAFEPATH"] = "1"

# Machines that run tests are busy ones: a deadline per example fails at random there.
settings.register_profile("nnconv", deadline=None)
settings.load_profile("nnconv")


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of reference models; a test that asks for it is skipped where there is none."""
    folder = find_shared_dir()
    if folder is None:
        pytest.skip("no reference models here (NNCONV_SHARED)")
    return folder


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """The folder of small models that the project made."""
    return FIXTURES


_STARTS = {}
"""The modules that draw numbers from a generator of their own, and where it stood at first."""


@pytest.fixture(autouse=True)
def same_numbers(request):
    """Let a module's generator begin anew for each test: the order of tests changes no data."""
    modules = [m for name, m in sys.modules.items() if name.startswith("support.")]
    for module in (request.module, *modules):
        for name in ("RNG", "rng"):
            generator = vars(module).get(name)
            if isinstance(generator, np.random.Generator):
                bits = generator.bit_generator
                bits.state = _STARTS.setdefault(module.__name__, bits.state)
