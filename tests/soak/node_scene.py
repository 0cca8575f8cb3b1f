"""A scene with a node of dedicated mode, which copies from A to B."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bridge.local import MirrorNode
from bridge.local.archives import spark_environment
from tests.e2e.dedicated import dedicated_stack, mm2
from tests.soak.both_logs import BothLogs
from tests.soak.moments import Sampler
from tests.soak.scenes import RECORDS, Scene, copying

OFFSETS = (0, 500, 1000)
INTERVALS = {
    "emit.checkpoints.interval.seconds": "2",
    "sync.group.offsets.interval.seconds": "2",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
}


@dataclass(kw_only=True)
class NodeScene(Scene):
    """With a node that is not started yet."""

    node: MirrorNode
    properties: dict[str, str] = field(default_factory=lambda: {"emit.heartbeats.enabled": "false"})

    def configure(self, **properties: str) -> None:
        """Writes the node's file again; `properties`: of the flow, with `_` for `.`."""
        self.properties |= {f"A->B.{key.replace('_', '.')}": value for key, value in properties.items()}
        clusters = {"A": self.source, "B": self.target}
        mm2(self.node.file, clusters, ["A->B"], INTERVALS | self.properties)

    def start(self) -> None:
        """Starts the node, or starts it again."""
        self.node.stop()
        self.starts.append(time.time())
        self.mark("the node is started")
        self.node.launch()

    def copying(self) -> list[int]:
        return copying(self.node.process.pid)


@contextmanager
def node_scene(
    directory: Path, name: str, seconds: float, environment: Mapping[str, str] | None = None
) -> Iterator[NodeScene]:
    """A scene of a node with this environment, judged at the end of the block. `seconds`: for which answers are looked
    at behind an event."""
    with dedicated_stack(directory) as stack:
        stack.start_clusters()
        node = MirrorNode(
            directory,
            directory / "mm2.properties",
            environment={**spark_environment(), **(environment or {})},
        )
        both = BothLogs(stack.source.bootstrap, stack.target.bootstrap)
        samplers = {"the node": Sampler(node.url)}
        made = NodeScene(stack, both, samplers, [node.process], [node.process.log], seconds, node=node)
        try:
            with made.judged(name):
                yield made
        finally:
            node.close()


def begin(
    scene: NodeScene, *, records: int = RECORDS, offsets: Sequence[int] = OFFSETS, **properties: str
) -> None:
    """A topic `orders` with groups at these offsets; asked from before the node is started on."""
    topic = scene.topic("orders", records)
    for offset in offsets:
        scene.group(f"at-{offset}", {("orders", 0): offset})
    start(scene, **{"topics": topic, **properties})


def start(scene: NodeScene, **properties: str) -> None:
    scene.configure(**{"groups": ".*", **properties})
    scene.ask()
    scene.start()
