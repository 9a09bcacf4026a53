"""What an operator allows a round to do: whom it leaves alone, when it may act, how much it may move."""
