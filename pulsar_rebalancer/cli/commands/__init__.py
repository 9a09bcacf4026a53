"""One module per command, each with a typer application named `app`; imported only when its command
is called.
"""
