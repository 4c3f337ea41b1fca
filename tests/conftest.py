# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of every layer share. No bpy here: the tests of the core run without it."""

import os

import pytest
from hypothesis import settings

# The same examples on every run: a red test is red again on the next machine. IK_FUZZ widens the sweeps.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def fuzz_cases() -> int:
    """How many cases a seeded sweep draws: the environment's IK_FUZZ, or 10,000."""
    return int(os.environ.get("IK_FUZZ", "10000"))
