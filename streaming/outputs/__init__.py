"""The output topics of the job: commands, rounds and rejected records."""
