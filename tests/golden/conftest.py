"""`--golden-rewrite` writes what the engine prints now into the scenario files, instead of
comparing.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-rewrite",
        action="store_true",
        dest="golden_rewrite",
        help="rewrite the expected print-outs of tests/golden",
    )


@pytest.fixture
def rewrite(pytestconfig: pytest.Config) -> bool:
    """Whether files are to be rewritten; the option is unknown when pytest was not started on this
    folder.
    """
    return bool(pytestconfig.getoption("golden_rewrite", default=False))
