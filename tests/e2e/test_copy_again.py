"""DELETE and PATCH of a source connector's offsets in Connect (KIP-875): what they say is done."""

from __future__ import annotations

import pytest

from bridge.local.processes import ConnectFailed
from tests.e2e.control import aliased
from tests.e2e.copying import copying, fill, wait_copied
from tests.e2e.flow import Flow
from tests.e2e.mirrored_flow import PARTITIONS
from tests.support import create_topic, unique
from tests.support.messages import message, message_pattern

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def unique_flow(flow: Flow) -> Flow:
    return aliased(flow)


def test_offsets_that_are_deleted_or_altered_have_records_copied_again(unique_flow: Flow) -> None:
    topic = create_topic(unique_flow.source.bootstrap, unique("again"), PARTITIONS)
    fill(unique_flow, topic, 0)
    rest, whole = unique_flow.worker.rest, list(range(20))
    with copying(unique_flow, topic) as name:
        wait_copied(unique_flow, topic)

        def stopped() -> str:
            rest.stop(name)
            rest.wait_state(name, "STOPPED", tasks=0)
            return f"/connectors/{name}/offsets"

        answer = rest.call("DELETE", stopped())
        assert answer["message"] == message("connect.offsets_reset")
        rest.resume(name)
        wait_copied(unique_flow, topic, dict.fromkeys(range(PARTITIONS), whole * 2))

        place = {"cluster": unique_flow.source.name, "topic": topic, "partition": 0}
        one = [{"partition": place, "offset": {"offset": 14}}]
        answer = rest.call("PATCH", stopped(), body={"offsets": one})
        assert answer["message"] == message("connect.offsets_altered")
        rest.resume(name)
        again = {
            partition: whole * 2 + (whole[15:] if partition == 0 else []) for partition in range(PARTITIONS)
        }
        wait_copied(unique_flow, topic, again)

        none = [{"partition": place, "offset": {"offset": 99}}]
        said = message_pattern("copying.no_offset", partition=f"{topic}-0", offset=100, start=0, end=20)
        with pytest.raises(ConnectFailed, match=said):
            rest.call("PATCH", stopped(), body={"offsets": none})
        for elsewhere in ({"topic": unique("nowhere")}, {"partition": PARTITIONS}):
            wrong = [{"partition": place | elsewhere, "offset": {"offset": 3}}]
            with pytest.raises(ConnectFailed, match="does not exist on source cluster"):
                rest.call("PATCH", f"/connectors/{name}/offsets", body={"offsets": wrong})

        # All of it again, though an offset was altered before.
        answer = rest.call("DELETE", f"/connectors/{name}/offsets")
        assert answer["message"] == message("connect.offsets_reset")
        again = {partition: offsets + whole for partition, offsets in again.items()}
        rest.resume(name)
        fill(unique_flow, topic, 20)
        after = {partition: [*offsets, *range(20, 40)] for partition, offsets in again.items()}
        wait_copied(unique_flow, topic, after)
