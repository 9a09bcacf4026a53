"""Another interpreter, and an older processor, decide, simulate and measure the same, byte for
byte.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from tools.two_interpreters import differences, digests_of

#: Without what x86-64 processors of before 2013 lack; the C library chooses by processor, too.
OLDER_PROCESSOR = (
    "env",
    "NPY_DISABLE_CPU_FEATURES=X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
)
ALL = pytest.param((), 76, marks=pytest.mark.slow)
#: Those of tests/golden, and simulations; they take seconds.
SOME = pytest.param(("scenario", "simulation"), 30, marks=pytest.mark.lab)


def other_interpreter() -> list[str]:
    """The command of a Python of another minor version that has our packages: that of the variable
    OTHER_PYTHON, or one on the PATH. Skips the test if there is none.
    """
    told = shlex.split(os.environ.get("OTHER_PYTHON", ""))
    on_path = (shutil.which(f"python3.{minor}") for minor in range(14, 10, -1))
    for command in [told] if told else [[one] for one in on_path if one]:
        check = "import sys, numpy, msgspec, pydantic; print(sys.version_info[1])"
        found = subprocess.run([*command, "-c", check], capture_output=True, text=True, check=False)
        if found.returncode == 0 and int(found.stdout) != sys.version_info[1]:
            return command
    pytest.skip(
        "no Python of another minor version with the packages of requirements/executor.lock: name "
        "the one of a virtual environment in OTHER_PYTHON"
    )


def older_processor() -> list[str]:
    """Our Python, as on an older processor."""
    if platform.machine() != "x86_64":
        pytest.skip("names features of x86-64")
    return [*OLDER_PROCESSOR, sys.executable]


@pytest.mark.parametrize(("kinds", "least"), [ALL, SOME])
@pytest.mark.parametrize("other", [other_interpreter, older_processor])
def test_the_same_bytes_are_published(
    other: Callable[[], list[str]], kinds: Sequence[str], least: int
) -> None:
    theirs = digests_of(other(), kinds)
    ours = digests_of([sys.executable], kinds)

    assert differences(ours, theirs) == []
    assert len(ours) >= least
