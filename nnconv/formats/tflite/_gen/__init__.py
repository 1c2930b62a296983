"""Generated modules: data that tools/ makes from the schemas of others. Never edited."""
