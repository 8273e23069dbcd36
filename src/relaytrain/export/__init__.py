"""A finished run for others: the trained network in files they read, its epochs as traces."""
