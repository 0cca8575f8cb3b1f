"""The one definition of BridgeMirrorSourceConnector's keys: stock's, in stock's order (stock §1.1, §1.2), then ours."""

from __future__ import annotations

from dataclasses import replace

from bridge.mm2.filters import (
    CONFIG_PROPERTIES_EXCLUDE,
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    USE_DEFAULTS_FROM,
    USE_DEFAULTS_FROM_DEFAULT,
)
from bridge.model.copying import MERGE_WITH, TAKE_OVER_FROM
from bridge.model.key_rules import ignored
from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import (
    ConfigDef,
    ForbiddenValue,
    Importance,
    In,
    Key,
    ListOf,
    Patterns,
    Range,
    ReplicationFactor,
    Type,
    Width,
    flag,
    interval,
    numbered,
)
from connectors.config.mirror_options import (
    PYTHON_CLASS,
    STOCK,
    batch_limit,
    metric_names,
    mirror_keys,
    syncs_location,
)

EMIT_SYNCS = "emit.offset-syncs.enabled"
REPLICATION_FACTOR = "replication.factor"
SYNCS_REPLICATION_FACTOR = "offset-syncs.topic.replication.factor"
OFFSET_LAG_MAX = "offset.lag.max"
HEARTBEATS = "heartbeats.replication.enabled"
REFRESH, REFRESH_INTERVAL = "refresh.topics.enabled", "refresh.topics.interval.seconds"
SYNC_CONFIGS, SYNC_CONFIGS_INTERVAL = "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds"
SYNC_ACLS, SYNC_ACLS_INTERVAL = "sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"
REVOKE_ACLS = "sync.topic.acls.revoke"
TRANSACTION_INTERVAL = "transaction.interval.ms"
MAX_RATE = "bridge.copy.max.bytes.per.second"
GAP_POLICY, RECORD_POLICY = "source.gap.policy", "source.record.policy"
TARGET_RECREATED = "bridge.target.recreated"
TRANSFORMS = "bridge.transforms"
TRANSFORM_TIMEOUT, TRANSFORM_MEMORY = "bridge.transform.timeout.ms", "bridge.transform.memory.bytes"
SPECULATION, SHARED = "spark.speculation", "spark.shared"

_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH
_GROUP, _PIPELINE = "Topics", "Pipeline"


def _patterns(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.LIST, default, _HIGH, doc, _GROUP, width=Width.LONG, validator=Patterns())


def _class(name: str, default: str, doc: str) -> Key:
    return Key(name, Type.STRING, STOCK + default, _LOW, doc + PYTHON_CLASS, _GROUP, width=Width.LONG)


def _policy(name: str, default: str, doc: str, ways: tuple[str, ...] = ("report", "fail")) -> Key:
    return Key(name, Type.STRING, default, _MEDIUM, doc, _PIPELINE, validator=In(ways), recommended=ways)


_STOCKS = (
    _patterns(
        "topics",
        TOPICS_DEFAULT,
        "Topics to replicate. Supports comma-separated topic names and regexes.",
    ),
    _patterns(
        "topics.exclude",
        TOPICS_EXCLUDE_DEFAULT,
        "Excluded topics. Supports comma-separated topic names and regexes. Excludes take precedence over includes.",
    ),
    _patterns(
        CONFIG_PROPERTIES_EXCLUDE,
        CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
        "Topic config properties that should not be replicated. Supports comma-separated property names and regexes. "
        "message.timestamp.type has to be among them. A topic's message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms are excluded by their names in a broker's configuration too.",
    ),
    _class("topic.filter.class", "DefaultTopicFilter", "TopicFilter to use. Selects topics to replicate."),
    _class(
        "config.property.filter.class",
        "DefaultConfigPropertyFilter",
        "ConfigPropertyFilter to use. Selects topic config properties to replicate.",
    ),
    replace(
        interval(
            "consumer.poll.timeout.ms",
            "1000",
            "Timeout when polling source cluster. Without effect: the pipeline reads with long polls of its own.",
            _GROUP,
        ),
        rule=ignored("the pipeline reads with long polls of its own"),
    ),
    flag(REFRESH, "true", "Whether to periodically check for new topics and partitions.", _GROUP),
    interval(REFRESH_INTERVAL, "600", "Frequency of topic refresh.", _GROUP),
    flag(
        SYNC_CONFIGS,
        "true",
        "Whether to periodically configure remote topics to match their corresponding upstream topics.",
        _GROUP,
    ),
    interval(SYNC_CONFIGS_INTERVAL, "600", "Frequency of topic config sync.", _GROUP),
    flag(
        SYNC_ACLS,
        "true",
        "Whether to periodically configure remote topic ACLs to match their corresponding upstream topics: who may "
        "read a topic may read its copy; WRITE is never granted.",
        _GROUP,
    ),
    interval(SYNC_ACLS_INTERVAL, "600", "Frequency of topic ACL sync.", _GROUP),
    Key(
        REPLICATION_FACTOR,
        Type.INT,
        "2",
        _LOW,
        "Replication factor for newly created remote topics, and with emit.offset-syncs.enabled=false for the "
        "pipeline's own internal topics too; -1: the brokers' default.",
        _GROUP,
        validator=ReplicationFactor(),
    ),
    Key(
        SYNCS_REPLICATION_FACTOR,
        Type.SHORT,
        "3",
        _LOW,
        "Replication factor for the offset-syncs topic and the pipeline's own internal topics on the target; -1: the "
        "brokers' default.",
        _GROUP,
        validator=ReplicationFactor(),
    ),
    Key(
        OFFSET_LAG_MAX,
        Type.LONG,
        "100",
        _LOW,
        "How out-of-sync a remote partition can be before another offset sync is emitted.",
        _GROUP,
        validator=Range(0),
    ),
    syncs_location("The location (source/target) of the offset-syncs topic.", _GROUP),
    flag(
        EMIT_SYNCS,
        "true",
        "Whether to store the new offset of the replicated records in offset-syncs topic or not. Stock's "
        "MirrorCheckpointConnector needs them; ours does not.",
        _GROUP,
    ),
    flag(
        HEARTBEATS,
        "true",
        "Whether to replicate the heartbeats topics even when the topic filter does not include them.",
        _GROUP,
    ),
    metric_names(_GROUP),
)
_OURS = (
    Key(
        USE_DEFAULTS_FROM,
        Type.STRING,
        USE_DEFAULTS_FROM_DEFAULT,
        _LOW,
        "source: remote topics get the values that the source's topics have by default; anything else: they keep the "
        "target's defaults. Read by DefaultConfigPropertyFilter, as in MirrorMaker.",
        _GROUP,
        recommended=("target", "source"),
    ),
    flag(
        REVOKE_ACLS,
        "false",
        "Whether rules go from remote topics when the source has none for them any more: those that ALLOW READ, "
        "DESCRIBE or DESCRIBE_CONFIGS, made by hand or not. DENY rules always stay.",
        _GROUP,
        _MEDIUM,
    ),
    Key(
        TRANSACTION_INTERVAL,
        Type.LONG,
        "100",
        _MEDIUM,
        "How long copied records wait at most for their commit on the target, after which read_committed readers see "
        "them. Without a backlog they are committed as soon as what has come is sent.",
        _PIPELINE,
        validator=Range(1, 5000),
    ),
    Key(
        MAX_RATE,
        Type.LONG,
        "0",
        _MEDIUM,
        "How many bytes the connector copies per second at most, all slices together; 0: as many as it can. Counts "
        "the compressed size of batches as they are sent.",
        _PIPELINE,
        validator=Range(0),
    ),
    Key(
        TAKE_OVER_FROM,
        Type.LIST,
        "",
        _LOW,
        "Names of source connectors that copy topics of this one to the same target topics, and that this one "
        "replaces: they are fenced, and copying continues where they stopped. Without it, what another connector "
        "copies is refused.",
        _PIPELINE,
    ),
    Key(
        MERGE_WITH,
        Type.LIST,
        "",
        _LOW,
        "Names of source connectors with another source alias that may share target topics with this one: these "
        "topics then hold the records of several sources. Without it, the second connector is refused.",
        _PIPELINE,
    ),
    Key(
        TRANSFORMS,
        Type.LIST,
        "",
        _MEDIUM,
        "What records go through on their way, in this order: Python functions as python:module.function, or names. Of "
        "a name, bridge.transforms.<name>.type is the function, bridge.transforms.<name>.topics the topics whose "
        "records go through it (names and Java regexes, all by default), bridge.transforms.<name>.to other target "
        "topics that it may send records to, and every other bridge.transforms.<name>.<parameter> is handed to it. "
        "Ready ones are python:bridge.transforms.mask_fields and python:bridge.transforms.drop_where.",
        _PIPELINE,
        width=Width.LONG,
        validator=ListOf(),
    ),
    Key(
        TRANSFORM_TIMEOUT,
        Type.LONG,
        "5000",
        _LOW,
        "How long one call of a transform may take, for a batch of 16,384 records at most. Batches for which it takes "
        "longer are made smaller; where a single record takes longer, source.record.policy applies.",
        _PIPELINE,
        validator=Range(1, 10_000),
    ),
    Key(
        TRANSFORM_MEMORY,
        Type.LONG,
        "268435456",
        _LOW,
        "How many bytes the transforms of one slice may take in addition to what they use after loading (on Linux). "
        "What takes more is treated as what takes too long.",
        _PIPELINE,
        validator=Range(16_777_216),
    ),
    _policy(
        GAP_POLICY,
        "report",
        "What happens when records of the source are gone before they were copied, when a topic was recreated or "
        "truncated, when the target holds records that no offset run covers (target_not_empty), and when an offset "
        "run goes beyond the logs and no record confirms it (run_contradicted). report: it is written to the gap "
        "ledger and shown in health for a day, and copying continues; in the last two cases records may be there "
        "twice. fail: the task fails, saying what to do, and nothing is copied.",
    ),
    _policy(
        TARGET_RECREATED,
        "recopy",
        "What happens when a target topic was deleted and created again. recopy: all that the source still has is "
        "copied to it again, as far as it is empty when the connector sees it first; what the source no longer has is "
        "a gap. continue: copying continues where it was, and what was copied before is a gap. In both cases the gap "
        "ledger says so, and source.gap.policy applies.",
        ("recopy", "continue"),
    ),
    _policy(
        RECORD_POLICY,
        "fail",
        "What happens with a record that the target's broker refuses, that a transform fails with, or that nobody can "
        "decode where that is needed. fail: its partition fails, naming it, and the others are copied. report: it is "
        "left out, written to the gap ledger and shown in health.",
    ),
    batch_limit(_PIPELINE),
    Key(
        "spark.master",
        Type.STRING,
        "local[*]",
        _MEDIUM,
        "Master of the Spark cluster that the pipeline runs on; others than local ones have to be allowed by the "
        "service. Any other spark.* key that the service allows is passed on to Spark too (docs/security.md).",
        _PIPELINE,
    ),
    Key(
        "spark.remote",
        Type.STRING,
        "",
        _MEDIUM,
        "Address of a Spark Connect server that the pipeline runs on instead, as sc://host:15002/;use_ssl=true; it has "
        "to be allowed by the service as masters are. Its token: spark.connect.authenticate.token (docs/spark.md).",
        _PIPELINE,
    ),
    flag(
        SHARED,
        "false",
        "Whether this connector shares one local Spark with the other connectors of its service that set this to true "
        "and have the same other spark.* keys. Each has as many slices as it would have alone.",
        _PIPELINE,
    ),
    flag(
        SPECULATION,
        "false",
        "Must be false: two attempts of one slice would write at the same time.",
        _PIPELINE,
    ),
)

DEFINITION = ConfigDef(
    numbered(
        (
            *mirror_keys("Mirror", measured=True),
            *unprefixed_keys(),
            *_STOCKS,
            *_OURS,
            *bridge_keys("Bridge"),
            *cluster_keys("source", "Source cluster"),
            *cluster_keys("target", "Target cluster"),
        )
    ),
    forbidden=(
        ForbiddenValue(
            SPECULATION,
            "true",
            "spark.speculation must be false or absent: a second attempt of a slice would write beside the first, and "
            "each would throw the other out of its transaction",
        ),
    ),
)
