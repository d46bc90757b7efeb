"""Tables from files and data frames, and how their columns become features."""
