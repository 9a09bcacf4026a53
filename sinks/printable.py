"""Text of records as text on one line, for terminals and text logs."""


def printable(line: str) -> str:
    """One line of text that may be from a record: line breaks, control characters and characters
    that change the direction of the text are escaped, as in JSON.
    """
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _escaped(c) for c in line)


def _escaped(character: str) -> str:
    """`\\u000a`; beyond 16 bits two of these, so that a JSON text stays one."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
