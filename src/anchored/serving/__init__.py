"""Predictions where the rows are: in Arrow batches, in engines for tables, over HTTP.

Everything here predicts with NumPy, so a serving machine needs neither JAX nor scikit-learn.
"""

from anchored.serving.batches import output_schema as output_schema
from anchored.serving.batches import predict_batches as predict_batches
from anchored.serving.batches import predict_reader as predict_reader
