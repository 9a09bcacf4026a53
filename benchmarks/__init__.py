"""Speed of the fold and of the job, as ratios that can be compared between machines."""
