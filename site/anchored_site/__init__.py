"""What the documentation site needs beside Sphinx: its pages, its reference, its live models."""
