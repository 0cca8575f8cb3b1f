"""Replication policies beside stock's, for `replication.policy.class`."""

from bridge.policies.topic_map import TopicMap

__all__ = ["TopicMap"]
