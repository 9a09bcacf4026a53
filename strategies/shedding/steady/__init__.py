"""SteadyShedder: acts on lasting gaps only, plans moves by their predicted effect, and states a
bound on what moving can reach.
"""
