"""The page of benchmarks says what its records say: means, errors, best, counts, verdicts."""

import json
import re

import numpy as np
import pytest

from anchored.paper.pages import benchmark_page
from anchored.paper.tables.uci_scores import load_records


def record(preset, method, dataset, nll, student=None, n=20, **changed):
    """Splits whose scores differ by a little and average to what is asked."""
    wiggle = 0.01 * (np.arange(n) / n - (n - 1) / (2 * n))
    splits = {}
    for i in range(n):
        scores = {
            "rmse": 1.5,
            "nll": nll + wiggle[i],
            "nll_student_t": None if student is None else student + wiggle[i],
            "crps": 0.25,
            "coverage_90": 0.905,
            "calibration_error": 0.0125,
            "seconds": 3.0,
        }
        splits[f"{dataset}/{method}/{i}"] = scores | changed
    return {
        "schema": 2,
        "name": "table-uci",
        "preset": preset,
        "seed": 0,
        "settings": {},
        "versions": {},
        "cores": 2,
        "numbers": splits,
    }


def defaults(dataset, student, **kwargs):
    return record("defaults", "anchored-defaults", dataset, student + 0.5, student, **kwargs)


def page(*records, **kwargs):
    """Of records for a method and a data set each, put together to one for each preset."""
    together = {}
    for made in records:
        together.setdefault(made["preset"], made | {"numbers": {}})["numbers"] |= made["numbers"]
    return benchmark_page(together.values(), **kwargs)


def section(text, title):
    found = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", text, re.S | re.M)
    return found.group() if found else ""


def row(text, name):
    """Cells of the first row of that name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


HEADLINE, TABLE_1 = "Without tuning by hand", "Table 1"


def test_scores_are_means_with_the_standard_error_of_the_splits():
    values = np.random.default_rng(0).normal(2.5, 0.4, size=20)
    made = record("paper", "anchored-5x50", "boston", 0.0)
    for split, value in zip(made["numbers"].values(), values, strict=True):
        split["nll"] = float(value)
    error = values.std(ddof=1) / np.sqrt(20)
    ours, theirs, margin, in_errors = row(section(page(made), TABLE_1), "boston")
    assert ours == f"{values.mean():.2f} ± {error:.2f}"
    assert theirs == "2.52 ± 0.05"
    assert margin == f"{round(values.mean(), 2) - 2.52:+.2f}"
    assert in_errors == f"{(round(values.mean(), 2) - 2.52) / np.hypot(error, 0.05):+.1f}"


def test_the_lowest_is_bold_and_so_is_its_equal_in_print():
    text = section(page(defaults("wine", 0.95), defaults("boston", 2.353)), HEADLINE)
    assert row(text, "boston") == [
        "**2.35 ± 0.00**",
        "2.52 ± 0.05",
        "2.41 ± 0.25",
        "**2.35**",
        "Evidential",
    ]
    assert row(text, "wine")[0] == "0.95 ± 0.00"
    assert row(text, "wine")[3:] == ["**0.89**", "Evidential"]


def test_the_headline_scores_our_own_predictive_and_rivals_by_the_normal():
    rival = record("defaults", "ngboost", "yacht", 0.30)
    text = section(page(defaults("yacht", 0.25), rival), HEADLINE)
    assert row(text, "yacht")[:2] == ["0.25 ± 0.00", "0.30 ± 0.00"]
    assert "lower than NGBoost (our run) on 1 of 1 data sets." in text
    assert "CatBoost" not in text
    assert row(text.split("| defaults |")[1], "yacht") == [
        "1.50 ± 0.00",
        "0.25 ± 0.00",
        "90.5%",
        "3.0",
    ]


def test_counts_follow_the_numbers():
    good = [defaults("boston", 2.40), defaults("power", 2.79), defaults("energy", 1.0)]
    text = section(page(*good), HEADLINE)
    assert (
        "- NLL is lower than the paper's anchored 5x 50 on 2 of 3 data sets, higher on energy."
        in text
    )
    assert (
        "- NLL is lower than Deep Ensembles as published on 2 of 3 data sets, equal on power."
        in text
    )
    assert "the best seen on 0 of 3 data sets, higher on boston, energy and power." in text
    worse = section(page(defaults("boston", 2.60), *good[1:]), HEADLINE)
    assert "anchored 5x 50 on 1 of 3 data sets, higher on boston and energy." in worse
    assert (
        "Deep Ensembles as published on 1 of 3 data sets, equal on power, higher on boston."
        in worse
    )


def test_the_best_seen_is_the_lowest_of_everything_published():
    text = section(page(*(defaults(d, 9.0) for d in ("yacht", "naval", "kin8nm"))), HEADLINE)
    assert row(text, "yacht")[-2:] == ["**0.04 ± 0.08**", "anchored 5x 50-50"]
    assert row(text, "naval")[-2:] == ["**-10.05 ± 0.02**", "ReLU GP"]
    assert row(text, "kin8nm")[-2:] == ["**-1.28 ± 0.01**", "PBP-MV"]


def test_a_worse_number_flips_the_verdict():
    def verdict(boston):
        runs = [("boston", boston), ("wine", 0.90)]
        text = page(*(record("paper", "anchored-5x50", d, nll) for d, nll in runs))
        return section(text, TABLE_1)

    fine = "at most one standard error worse than the paper on 2 of 2 data sets."
    assert fine in verdict(2.40)
    assert fine in verdict(2.57)  # the paper's error is 0.05
    assert "on 1 of 2 data sets; more on boston (+0.06)." in verdict(2.58)


def test_the_paper_s_own_splits_stand_in_a_table_of_their_own():
    runs = [
        record("paper-splits", "relu-gp", "boston", 2.45),
        record("paper-splits", "relu-gp", "wine", 0.93),
        record("paper", "relu-gp", "boston", 2.60),
    ]
    text = page(*runs)
    own = section(text, "Table 1 on the paper's own splits")
    assert row(own, "boston")[:3] == ["2.45 ± 0.00", "2.45 ± 0.05", "+0.00"]
    assert "its NLL is the paper's to two decimals on 1 of 2 data sets." in " ".join(own.split())
    assert row(section(text, "Table 1: the paper's settings"), "boston")[0] == "2.60 ± 0.00"
    assert "paper-splits" not in section(text, "Seconds")


def test_the_members_of_table_1_are_scored_by_both_predictives():
    runs = [
        record("paper", "anchored-5x50", "energy", 1.5, student=0.4),
        record("paper", "anchored-5x50", "naval", -7.3, student=-7.1),
    ]
    text = section(page(*runs), TABLE_1)
    assert "- anchored 5x 50: at most one standard error worse than the paper on" in text
    assert "1 of 2 data sets; more on energy (+0.54)." in text
    assert "Student-t predictive: at most one standard error worse" in text
    assert "1 of 2 data sets; more on naval (+0.07)." in text


def test_the_lower_start_is_bold():
    nll = {
        "boston/network/0": 2.5,
        "boston/network/1": 2.5,
        "boston/prior/0": 2.5,
        "boston/prior/1": 2.6,
        "protein/network/0": 2.9,
        "protein/prior/0": 2.8,
    }
    starts = {"numbers": {label: {"nll": value} for label, value in nll.items()}}
    text = section(page(starts=starts), "Where members start")
    assert row(text, "boston") == ["2.550", "**2.500**", "2"]
    assert row(text, "protein") == ["**2.800**", "2.900", "1"]
    assert section(page(), "Where members start") == ""


def test_trainings_stand_line_by_line_with_a_verdict():
    def cell(training, *nll):
        splits = [{"nll": v, "rmse": 0.35, "coverage_90": 0.7} for v in nll]
        return {"training": training, "splits": splits}

    numbers = {
        "energy/0": cell("as in the scripts", 0.9, 1.1),
        "energy/1": cell("another", 2.0, 2.1),
        "naval/0": cell("as in the scripts", -7, -7.1),
    }
    protocol = {"numbers": numbers}
    text = section(page(protocol=protocol), "What the authors' training adds")
    error = 0.2 / np.sqrt(2) / np.sqrt(2)
    assert row(text, "the paper")[:3] == ["0.96 ± 0.13", "0.35 ± 0.01", "-"]
    assert row(text, "as in the scripts")[:3] == [
        f"1.00 ± {error:.2f} (2)",
        "0.35 ± 0.00 (2)",
        "70.0%",
    ]
    assert row(text, "another")[3:] == ["-", "-", "-"]
    assert " ".join(text.split()).endswith("at most one standard error worse than the paper: none.")
    numbers["energy/2"] = cell("a third", 1.0, 1.2)
    text = section(page(protocol=protocol), "What the authors' training adds")
    assert " ".join(text.split()).endswith('standard error worse than the paper: "a third".')


def test_missing_splits_are_said_in_the_cell():
    runs = [
        record("paper", "relu-gp", "boston", 2.41, n=10),
        record("paper", "relu-gp", "wine", 0.9, n=1),
    ]
    text = section(page(*runs), TABLE_1)
    assert row(text, "boston")[0] == "2.41 ± 0.00 (10)"
    assert row(text, "wine") == ["0.90 (1)", "0.92 ± 0.01", "-0.02", "-"]
    full = page(record("paper", "relu-gp", "protein", 2.9, n=5))
    assert row(section(full, TABLE_1), "protein")[0] == "2.90 ± 0.00"


def test_song_is_a_subset_and_is_not_set_beside_the_paper_s():
    runs = [defaults("song", 3.0, n=1), record("paper", "anchored-5x50", "song", 3.0, n=1)]
    text = page(*runs)
    assert row(section(text, HEADLINE), "song (subset)") == ["**3.00**", "-", "-", "-", "-"]
    assert "NLL is lower" not in section(text, HEADLINE)
    assert section(text, TABLE_1) == ""
    assert row(section(text, "Tables 4 and 5"), "song (subset)") == ["1.50"]
    assert "5,000 training and 2,000 test rows. It is not comparable" in " ".join(text.split())


def test_variants_are_ours_beside_the_paper_s():
    runs = [
        record("paper", "anchored-5x50", "naval", -7.2, rmse=0.000321),
        record("paper", "single-50", "boston", 2.7),
    ]
    text = section(page(*runs), "Tables 4 and 5")
    assert "| RMSE | anchored 5x 50 | single 50 |" in text
    assert row(text, "naval") == ["0.00032 ± 0.00000 [0.00 ± 0.00]", "- [0.00 ± 0.00]"]
    assert row(text.split("| NLL |")[1], "naval")[0] == "-7.20 ± 0.00 [-7.17 ± 0.03]"
    assert "- single 50: at most one standard error worse than the paper on 1 of 1" in text


def test_inference_methods_are_published_log_likelihoods_with_the_sign_turned():
    runs = [
        record("paper", "mc-dropout", "energy", 1.3),
        record("paper", "mc-dropout", "song", 3, n=1),
    ]
    text = section(page(*runs), "Table 6")
    assert row(text, "energy")[:3] == ["1.30 ± 0.00", "**0.96 ± 0.13**", "1.72 ± 0.01"]
    assert row(text, "energy")[-2:] == ["-", "-"]
    assert "song" not in text


def test_other_scores_are_those_of_every_method():
    runs = [defaults("boston", 2.4), record("paper", "mc-dropout", "boston", 2.6)]
    text = section(page(*runs), "Other scores")
    tail = ["1.50 ± 0.00", "0.25 ± 0.00", "90.5%", "0.013 ± 0.000"]
    assert row(text, "defaults") == ["anchored, defaults", "2.90 ± 0.00", "2.40 ± 0.00", *tail]
    assert row(text, "paper") == ["MC dropout", "2.60 ± 0.00", "-", *tail]


def test_times_add_up_and_stand_beside_pytorch():
    runs = [record("paper", "anchored-5x50", d, 2.0) for d in ("boston", "wine")]
    text = section(page(*runs, torch_seconds={"boston": 90.0, "yacht": 1.0}), "Seconds")
    assert "on 2 CPU cores" in text
    assert row(text, "paper")[1:3] == ["3.0", "-"]
    assert row(text, "paper")[-1] == "2.0 min"
    assert row(text, "boston") == ["3.0", "90.0", "30x", "60 s", "30.0 min"]
    assert "\n| yacht |" not in text


def test_splits_in_one_program_stand_beside_splits_side_by_side():
    times = {"side_by_side": 2.0, "one_program": 2.5, "ratio": 1.26}
    line = {"name": "kin8nm", "batch": 256, "steps": 28, **times}
    runs = [record("paper", "anchored-5x50", "boston", 2.0)]
    assert "one program" not in page(*runs)
    text = section(page(*runs, one_program=[line]), "Seconds")
    assert row(text, "kin8nm") == ["256", "28", "2.00 s", "2.50 s", "1.26"]


def test_hyperparameters_stand_beside_the_paper_s():
    text = section(page(tuned={"boston": {"noise_var": 0.0561, "depth": 2}}), "Hyperparameters")
    assert row(text, "boston")[:3] == ["- [64]", "- [0.05]", "0.0561 [0.06]"]
    assert row(text, "boston")[-1] == "2"


def test_a_split_that_is_not_finite_is_neither_hidden_nor_best():
    bad = defaults("boston", 2.0)
    bad["numbers"]["boston/anchored-defaults/3"] |= {"nll_student_t": None, "nll": None}
    worst = record("paper", "anchored-5x50", "boston", 2.0)
    for split in worst["numbers"].values():
        split["nll"] = None
    text = page(bad, worst)
    assert row(section(text, HEADLINE), "boston")[0] == "not finite"
    assert "anchored 5x 50 on 0 of 1 data sets, higher on boston." in section(text, HEADLINE)
    assert "more on boston (not finite)." in section(text, TABLE_1)


def test_sections_without_records_are_left_out():
    titles = re.findall(r"^## (.*)$", page(), re.M)
    assert titles == ["Sources of the published numbers"]
    assert page(record("smoke", "anchored-5x50", "boston", 2.0)) == page()
    with pytest.raises(ValueError, match="two records of the preset defaults"):
        benchmark_page([defaults("boston", 2.0), defaults("wine", 2.1)])


def write(folder, made):
    path = folder / made["preset"] / "table-uci.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made))
    return path


def test_records_are_loaded_as_they_were_written(tmp_path):
    made = [defaults("boston", 2.4), record("paper", "relu-gp", "wine", 0.9)]
    for each in made:
        write(tmp_path, each)
    assert load_records(tmp_path) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 1}, "it has schema 1, but this version reads 2; run it again"),
        ({"preset": 3}, "`preset` must be text"),
        ({"numbers": []}, "`numbers` must be an object"),
    ],
)
def test_a_record_that_does_not_fit_is_named(tmp_path, change, message):
    path = write(tmp_path, record("paper", "relu-gp", "boston", 2.4))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} cannot be used: .*{message}"):
        load_records(tmp_path)


def test_a_split_that_lacks_a_score_is_named():
    made = record("paper", "relu-gp", "boston", 2.4)
    made["numbers"]["boston/relu-gp/4"] = {"rmse": 1.0}
    with pytest.raises(ValueError, match="boston/relu-gp/4 of the record of paper has no nll, "):
        page(made)


def test_a_folder_without_records_or_with_misplaced_ones_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no <preset>/table-uci\.json"):
        load_records(tmp_path)
    path = write(tmp_path, record("paper", "relu-gp", "boston", 2.4))
    path.write_text(path.read_text().replace('"paper"', '"defaults"'))
    with pytest.raises(ValueError, match="says it is of the preset defaults"):
        load_records(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="cannot be used: it is not JSON"):
        load_records(tmp_path)
