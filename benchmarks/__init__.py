"""Measurements and pages of this repository, beside what `anchored reproduce` makes."""
