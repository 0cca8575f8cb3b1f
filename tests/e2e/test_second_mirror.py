"""Stock's MirrorSourceConnector on the same topics as ours, by accident: every record is on the target twice."""

from __future__ import annotations

import pytest

from tests.e2e.control import aliased
from tests.e2e.flow import Flow
from tests.e2e.mirrored_flow import OurFlow, every
from tests.support import eventually
from tests.support.mirror import mirroring
from tests.support.waits import WAIT


@pytest.mark.long
def test_its_copies_are_named_and_no_offset_before_them_is_exact(flow: Flow) -> None:
    mirrored = OurFlow(aliased(flow))
    topic, group = mirrored.topic("twice", shifted=False), mirrored.name("twice")
    mirrored.produce(topic)
    with mirrored.mirror(), mirrored.group_offsets(f"{mirrored.mark}.*") as groups:
        mirrored.wait_mirrored(topic)
        mirrored.commit(group, topic, every(3))

        def verdicts() -> set[str]:
            return {row["verdict"] for row in flow.service.report(group, groups)["partitions"]}

        eventually(lambda: verdicts() == {"exact"}, WAIT, what="the group is exact", watched=flow.watched)
        with mirroring(flow.worker, mirrored.source, mirrored.target, [topic]):

            def named() -> bool:
                errors = flow.service.status(groups)["errors"]
                return verdicts() == {"bounded"} and any(f"copied {topic}-0 too" in error for error in errors)

            eventually(named, WAIT, what="the second mirror is named", watched=flow.watched)
        mirrored.produce(topic)
        mirrored.commit(group, topic, every(20))
        eventually(
            lambda: verdicts() == {"exact"}, WAIT, what="it is past these copies", watched=flow.watched
        )
