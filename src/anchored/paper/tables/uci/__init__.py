"""The UCI regression benchmark of the paper: its settings, methods, records and tables."""
