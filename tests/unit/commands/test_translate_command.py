"""What `mirror-bridge translate` says of its answers, and its files' columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer

from bridge.commands.translate import conclude
from bridge.model.values import Evidence, Judgement, Reason, Verdict
from bridge.positions.files import write_table
from bridge.positions.translator import AnswerArrays, TranslatedPositions
from tests.support.messages import message


def translated() -> TranslatedPositions:
    """One that is exact, two behind which records are missing, and one of which that is not known."""
    answers = AnswerArrays.empty(4)
    answers.set(0, Verdict(Judgement.EXACT, 7, 0, Evidence.RUN, not_on_target=0))
    for at, absent in ((1, 1200), (2, 3)):
        gone = Reason.RECORDS_NOT_ON_TARGET
        answers.set(at, Verdict(Judgement.PENDING, at, 0, Evidence.RUN, gone, not_on_target=absent))
    answers.set(3, Verdict(Judgement.PENDING, 5, 0, Evidence.RUN, Reason.COPIES_UNKNOWN))
    return TranslatedPositions(["A.orders"], np.zeros(4, np.int32), answers)


def test_positions_that_lack_records_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        conclude(translated())
    assert ended.value.exit_code == 3
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == "mirror-bridge: 1 exact, 0 bounded, 3 pending"
    assert sorted(rest) == sorted(
        [
            "mirror-bridge: pending, copies_unknown: 1",
            f"mirror-bridge: {message('positions.lacking', count=2, most='1,200')}",
        ]
    )


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_each_has_its_number(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"answers{suffix}"
    write_table(file, pa.table({"offset": [0, 1, 2, 3]}), translated())
    if suffix == ".json":
        rows = json.loads(file.read_text())
        assert [row["not_on_target"] for row in rows] == [0, 1200, 3, None]
        assert [row["target_offset"] for row in rows] == [7, 1, 2, 5]
    else:
        header, *lines = file.read_text().replace('"', "").splitlines()
        at = header.split(",").index("not_on_target")
        assert [line.split(",")[at] for line in lines] == ["0", "1200", "3", ""]
