"""The examples of updates and explanations run and show what their pages say."""

from examples import explain, updates

QUICK = {"n_members": 2, "hidden": (8,), "epochs": 30, "prior": 2.0, "noise_var": 0.1}


def test_updates():
    found = updates.main(n_parts=4, **QUICK | {"epochs": 100})
    assert [step["rows"] for step in found] == [30, 60, 90, 120]
    assert [step["anew"] for step in found] == ["", "rows grew", "rows grew", ""]
    assert found[-1]["rmse"] < found[0]["rmse"]


def test_explain():
    found = explain.main(**QUICK)
    assert len(found) == 2
    assert "heating=wood is in no known row" in found.unusual[1]
    assert any(remark.startswith("area=400 is") for remark in found.unusual[1])
