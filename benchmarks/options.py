"""What the command lines of the benchmarks have in common."""

import argparse


def options(module: str, text: str) -> argparse.ArgumentParser:
    """`text`: the docstring of the benchmark, whose first paragraph is left out."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=text.split("\n\n", maxsplit=1)[-1]
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def seeds(parser: argparse.ArgumentParser, default: str) -> None:
    """The option `--seeds FIRST-LAST`; its value is a range."""
    parser.add_argument(
        "--seeds",
        type=_range,
        default=default,
        metavar="FIRST-LAST",
        help=f"first and last seed (default: {default})",
    )


def _range(text: str) -> range:
    first, last = (int(part) for part in text.split("-"))
    return range(first, last + 1)


def number(parser: argparse.ArgumentParser, name: str, default: int, help: str) -> None:
    """An option that takes a whole number; its help ends with the default."""
    parser.add_argument(
        name, type=int, default=default, metavar="N", help=f"{help} (default: {default})"
    )
