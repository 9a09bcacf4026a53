"""How much of the job one cluster may use: records beyond a quota are set aside."""
