"""The spec of a pipeline that tests begin with: what they are not about is as it is by default, but quick."""

from __future__ import annotations

from bridge.model.copying import PipelineSpec

SPEC = PipelineSpec(
    name="mirror",
    props={},
    source_alias="A",
    runs_topic="mm2-offset-runs.A.internal",
    layout_topic="mm2-layout.A.internal",
    gaps_topic="mm2-gaps.A.internal",
    syncs_topic="",
    syncs_on_target=False,
    offset_lag_max=100,
    from_latest=False,
    committed_only=True,
    fail_on_gap=False,
    fail_on_refused_record=True,
    transaction_interval=0.1,
    batch_size=16384,
)
