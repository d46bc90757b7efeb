"""The same rows predicted by every engine (`benchmarks.serving`)."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import anchored
from anchored import AnchoredRegressor, runtime, serving
from anchored.serving import engines
from anchored.serving.questions import ARROW, JSON
from benchmarks.http_client import asked, stream


def flats(n_rows: int, seed: int = 0, new_levels: bool = False) -> pd.DataFrame:
    """Numbers, categories of few and of many levels, yes and no, dates and missing cells."""
    rng = np.random.default_rng(seed)
    towns = ["north", "south", "old town", "harbour"]
    streets = [f"street {i}" for i in range(80)]
    if new_levels:
        towns, streets = [*towns, "new town"], [*streets, *(f"lane {i}" for i in range(20))]
    size, rooms = rng.uniform(20, 200, n_rows), rng.integers(1, 7, n_rows)
    town, street = rng.integers(len(towns), size=n_rows), rng.integers(len(streets), size=n_rows)
    lift, day = rng.uniform(size=n_rows) < 0.4, rng.integers(0, 1_000, n_rows)
    price = size / 60 + 0.1 * rooms + 0.3 * town + 0.004 * street + 0.2 * lift
    frame = pd.DataFrame(
        {
            "id": np.arange(n_rows),
            "size": np.where(rng.uniform(size=n_rows) < 0.1, np.nan, size.round(1)),
            "rooms": rooms,
            "floor": rng.normal(size=n_rows).round(3),
            "town": np.array(towns, object)[town],
            "street": np.array(streets, object)[street],
            "lift": np.where(lift, "yes", "no").astype(object),
            "built": (np.datetime64("2020-01-01") + day).astype(str).astype(object),
            "price": price + rng.normal(0, 0.2, n_rows),
        }
    )
    for name in ("town", "street", "lift"):
        frame.loc[rng.uniform(size=n_rows) < 0.05, name] = None
    return frame


def fitted(path: Path, n_rows: int = 4_000, **settings) -> AnchoredRegressor:
    """A model of flats, also saved."""
    frame = flats(n_rows)
    inputs = frame.drop(columns=["id", "price"])
    model = AnchoredRegressor(random_state=0, **settings).fit(inputs, frame["price"])
    model.save(path)
    return model


# Every engine


def of_estimator(model: AnchoredRegressor, frame: pd.DataFrame) -> pd.DataFrame:
    """What the estimator itself says, in the columns of `anchored predict`."""
    inputs = frame.drop(columns=["id", "price"])
    dist = model.predict_dist(inputs)
    lower, upper = dist.interval(0.9)
    return pd.DataFrame(
        {
            "id": frame["id"],
            "mean": dist.mean,
            "std": dist.std,
            "epistemic_std": np.sqrt(dist.epistemic_var),
            "aleatoric_std": np.sqrt(dist.aleatoric_var),
            "lower": lower,
            "upper": upper,
            "novelty": model.novelty(inputs),
        }
    )


def by_batches(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    batches = pa.Table.from_pandas(frame).to_batches(max_chunksize=7_777)
    return pa.Table.from_batches(serving.predict_batches(path, batches, keep=["id"])).to_pandas()


def by_onnx(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    import onnxruntime

    from anchored.tables.reading import as_table

    model = runtime.load(path)
    with tempfile.TemporaryDirectory() as folder:
        anchored.onnx.export(model, Path(folder) / "model.onnx")
        session = onnxruntime.InferenceSession(
            Path(folder) / "model.onnx", providers=["CPUExecutionProvider"]
        )
    x = model.encoder.transform(as_table(frame)).astype(np.float32)
    names = ["mean", "std", "epistemic_std"]
    parts = [session.run(names, {"x": x[i : i + 8_192]}) for i in range(0, len(x), 8_192)]
    found = (np.concatenate([part[i] for part in parts])[:, 0] for i in range(len(names)))
    return pd.DataFrame({"id": frame["id"], **dict(zip(names, found, strict=True))})


def by_pandas(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    coded = frame.astype({"town": "category", "street": "category"})
    return engines.with_pandas(path, coded, keep=["id"])


def by_polars(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    import polars as pl

    lazy = pl.from_pandas(frame).lazy().with_columns(pl.col("town").cast(pl.Categorical))
    return engines.with_polars(path, lazy, keep=["id"]).collect().to_pandas()


def by_duckdb(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("flats", pa.Table.from_pandas(frame))
        call = engines.add_to_duckdb(connection, path)
        return connection.sql(f"select id, unnest({call}) from flats").df()


def by_duckdb_reader(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("flats", pa.Table.from_pandas(frame))
        relation = connection.sql("select * from flats where id >= 0")
        return serving.predict_reader(path, relation, keep=["id"]).read_all().to_pandas()


def by_ray(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        data = ray.data.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
        return engines.with_ray(path, data, keep=["id"]).to_pandas()
    finally:
        ray.shutdown()


def by_spark(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    try:
        given = spark.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
        return engines.with_spark(path, given, keep=["id"]).toArrow().to_pandas()
    finally:
        spark.stop()


def by_json(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    inputs = frame.drop(columns=["price"])
    parts = [inputs.iloc[i : i + 2_000] for i in range(0, len(inputs), 2_000)]
    bodies = [part.to_json(orient="records").encode() for part in parts]
    answers = asyncio.run(asked(path, [b'{"rows": %s}' % body for body in bodies], JSON))
    rows = [row for answer in answers for row in json.loads(answer)["rows"]]
    return pd.DataFrame({"id": frame["id"], **pd.DataFrame(rows)})


def by_arrow(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    bodies = [stream(table.slice(i, 20_000)) for i in range(0, len(table), 20_000)]
    answers = asyncio.run(asked(path, bodies, ARROW))
    parts = [pa.ipc.open_stream(answer).read_pandas() for answer in answers]
    return pd.DataFrame({"id": frame["id"], **pd.concat(parts, ignore_index=True)})


ENGINES: dict[str, tuple[str, Callable[[str, pd.DataFrame], pd.DataFrame]]] = {
    "NumPy, in batches of Arrow": ("pyarrow", by_batches),
    "ONNX": ("onnxruntime", by_onnx),
    "pandas": ("pandas", by_pandas),
    "Polars": ("polars", by_polars),
    "DuckDB, function": ("duckdb", by_duckdb),
    "DuckDB, stream": ("duckdb", by_duckdb_reader),
    "Ray Data": ("ray", by_ray),
    "Spark": ("pyspark", by_spark),
    "HTTP, JSON": ("uvicorn", by_json),
    "HTTP, Arrow": ("uvicorn", by_arrow),
}


def apart(found: pd.DataFrame, truth: pd.DataFrame) -> float:
    """The largest difference in any column that both have."""
    found = found.sort_values("id", ignore_index=True)
    np.testing.assert_array_equal(found["id"], truth["id"])
    names = [name for name in found if name in truth and name != "id"]
    assert len(names) >= 3
    differences = (np.asarray(found[name], float) - truth[name] for name in names)
    return max(float(np.abs(difference).max()) for difference in differences)
