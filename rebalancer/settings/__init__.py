"""The one typed tree of all settings: where values come from, how they are checked, what the other packages get of them."""
