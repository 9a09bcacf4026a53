"""The files of the live page, as browsers get them."""
