"""Topics in folders of JSON Lines segments."""
