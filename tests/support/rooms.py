"""Which tests a change of source files selects.

    python -m tests.support.rooms bridge/dedicated bridge/kafka/admin/topic_admin.py java-shim

Unit tests stand as the source does: a file selects the folder of tests/unit that has its package's name, or the nearest
one above. Tests with brokers and those of the HTTP contract run through many rooms: for them `ROOMS` says what they
start and exercise. A file belongs to the row with the longest beginning of its path, a folder to all rows in it too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from tests import ROOT

UNIT = ROOT / "tests" / "unit"
SOURCE = ("bridge", "connectors", "java-shim", "deploy", "docker-compose.yml")
"""What a change is selected for: a path is one of these, or in one."""
_WITHOUT_UNITS = ("java-shim", "deploy", "docker-compose.yml")
"""Source whose unit tests, if any, are no files of pytest, or stand in tests/unit/repository."""

ROOMS = {
    "bridge": "e2e/test_demo e2e/test_logs integration/test_driver",
    "bridge/audit": "integration/test_audit",
    "bridge/cli.py": "e2e/test_demo integration/test_read_command",
    "bridge/client": """e2e/test_control_beside_stock e2e/test_dedicated integration/test_mirror_client
        integration/test_read_command""",
    "bridge/commands": """e2e/test_dedicated e2e/test_dedicated_take_over e2e/test_doctor e2e/test_failback
        e2e/test_readiness e2e/test_runbook e2e/test_source_take_over integration/test_audit integration/test_doctor
        integration/test_hand_back integration/test_legacy integration/test_plan_file integration/test_read_command
        integration/test_replicate integration/test_reset integration/test_translate""",
    "bridge/commands/audit.py": "integration/test_audit",
    "bridge/commands/client.py": "integration/test_mirror_client integration/test_read_command",
    "bridge/commands/doctor.py": "e2e/test_doctor integration/test_doctor",
    "bridge/commands/failover.py": "e2e/test_failback e2e/test_runbook integration/test_plan_file",
    "bridge/commands/hand_back.py": "e2e/test_source_take_over integration/test_hand_back",
    "bridge/commands/hand_back_flows.py": "e2e/test_dedicated_take_over",
    "bridge/commands/index.py": "e2e/test_rights e2e/test_source_take_over integration/test_translate",
    "bridge/commands/legacy.py": "integration/test_legacy",
    "bridge/commands/legacy_offsets.py": "integration/test_legacy",
    "bridge/commands/legacy_config.py": """contract/test_followed_advice contract/test_wild_configs
        integration/test_legacy""",
    "bridge/commands/mirror.py": """e2e/test_dedicated e2e/test_dedicated_samples e2e/test_dedicated_sharing
        e2e/test_dedicated_stock_cases e2e/test_dedicated_take_over""",
    "bridge/commands/read.py": "integration/test_read_command",
    "bridge/commands/readiness.py": "e2e/test_readiness e2e/test_runbook",
    "bridge/commands/replicate.py": "integration/test_replicate integration/test_spark_cluster",
    "bridge/commands/connector.py": "e2e/test_copy_again e2e/test_mirror_sink integration/test_reset",
    "bridge/commands/translate.py": "integration/test_translate",
    "bridge/connector_files.py": """integration/test_audit integration/test_replicate integration/test_reset
        integration/test_translate integration/test_values_of_java""",
    "bridge/dedicated": """e2e/test_dedicated e2e/test_dedicated_samples e2e/test_dedicated_sharing
        e2e/test_dedicated_stock_cases e2e/test_dedicated_take_over e2e/test_rights
        integration/test_clients_come_back""",
    "bridge/dedicated/config": """contract/test_followed_advice contract/test_wild_configs e2e/test_dedicated
        e2e/test_dedicated_samples e2e/test_dedicated_stock_cases
        e2e/test_dedicated_take_over integration/test_stock_mirror_maker_config""",
    "bridge/demo": "e2e/test_demo",
    "bridge/doctor": "e2e/test_doctor e2e/test_rights integration/test_doctor",
    "bridge/java_properties.py": """integration/test_mirror_client
        integration/test_stock_mirror_maker_config integration/test_values_of_java""",
    "bridge/kafka": """e2e/test_internal_topics integration/test_internal_topics integration/test_java_failover
        integration/test_kinds_of_offset integration/test_lookups integration/test_markers integration/test_producer
        integration/test_session_ends integration/test_wrong_credentials""",
    "bridge/kafka/admin": """e2e/test_bad_input e2e/test_rights e2e/test_source e2e/test_source_stock_cases
        integration/test_admin_faults integration/test_clients_come_back integration/test_doctor
        integration/test_internal_topics integration/test_reachability integration/test_source_rounds
        integration/test_wrong_credentials""",
    "bridge/kafka/config": """contract/test_wild_configs contract/test_worst_inputs
        e2e/test_bad_input e2e/test_keys e2e/test_planted_secrets
        integration/test_client_security
        integration/test_kerberos integration/test_keys_of_java integration/test_reachability
        integration/test_stock_naming integration/test_token_logins integration/test_wrong_credentials
        unit/connectors/config/test_key_effects""",
    "bridge/kafka/consumer": """integration/test_batch integration/test_copying integration/test_fetcher
        integration/test_internal_topics integration/test_lookups integration/test_nearest_replica
        integration/test_hanging_transactions integration/test_killed_in_transactions
        integration/test_pipeline_damage integration/test_pipeline_gaps
        integration/test_pipeline_unreadable
        integration/test_slow_source
        integration/test_spark_sources""",
    "bridge/kafka/network": """integration/test_client_security integration/test_clients_come_back
        integration/test_fetcher integration/test_kerberos integration/test_lookups integration/test_producer
        integration/test_reachability integration/test_session_ends integration/test_slow_source
        integration/test_slow_target integration/test_token_logins""",
    "bridge/kafka/producer": """integration/test_copies integration/test_joining integration/test_pipeline_faults
        integration/test_hanging_transactions integration/test_killed_in_transactions
        integration/test_pipeline_records integration/test_producer
        integration/test_session_ends integration/test_slow_target integration/test_spark_sink""",
    "bridge/kafka/protocol": """integration/test_admin_faults integration/test_batch integration/test_fetcher
        integration/test_internal_topics integration/test_lookups integration/test_producer
        integration/test_wire_golden""",
    "bridge/kafka/record": """integration/test_batch integration/test_compression integration/test_copying
        integration/test_fetcher integration/test_lookups integration/test_pipeline_records
        integration/test_pipeline_unreadable integration/test_producer integration/test_spark_sources
        integration/test_transforms integration/test_wire_golden""",
    "bridge/local": """e2e/test_compose e2e/test_demo integration/test_archives integration/test_local_processes
        integration/test_local_stack""",
    "bridge/logs": "e2e/test_logs e2e/test_planted_secrets",
    "bridge/mm2": """e2e/test_beside_stock e2e/test_checkpoints e2e/test_control_beside_stock e2e/test_internal_topics
        e2e/test_known_defects e2e/test_source_stock_cases e2e/test_stock_cases e2e/test_take_over
        integration/test_both_directions integration/test_known_defects integration/test_known_defects_java
        integration/test_mirror_client integration/test_mixed_sources integration/test_stock_naming
        integration/test_stock_source integration/test_stock_store""",
    "bridge/model": """integration/test_copying integration/test_driver integration/test_java_failover
        integration/test_keys_of_java integration/test_kinds_of_offset integration/test_lookups
        integration/test_source_rounds integration/test_values_of_java""",
    "bridge/model/state_records": """e2e/test_readiness_topic e2e/test_runbook integration/test_internal_topics
        integration/test_state_topics""",
    "bridge/child_process.py": "e2e/test_source_life integration/test_driver",
    "bridge/pipeline": """e2e/test_copy_again e2e/test_dedicated_take_over e2e/test_source_take_over
        integration/test_hand_back integration/test_reset""",
    "bridge/pipeline/driver": """e2e/test_planted_secrets e2e/test_source e2e/test_source_life integration/test_driver
        integration/test_legacy integration/test_rate_limit integration/test_replicate integration/test_spark_cluster
        integration/test_spark_connect integration/test_spark_shared integration/test_spark_submit""",
    "bridge/pipeline/layouts": """e2e/test_source_life e2e/test_source_take_over integration/test_both_directions
        integration/test_hanging_transactions integration/test_killed_in_transactions
        integration/test_copies integration/test_copying integration/test_driver integration/test_hand_back
        integration/test_joining integration/test_mixed_sources integration/test_pipeline_faults
        integration/test_rate_limit integration/test_state_topics""",
    "bridge/pipeline/queries": """integration/test_driver integration/test_replicate integration/test_spark_cluster
        integration/test_spark_connect integration/test_spark_shared integration/test_spark_submit""",
    "bridge/pipeline/slices": """e2e/test_source e2e/test_source_stock_cases e2e/test_source_take_over
        integration/test_any_lag integration/test_compression integration/test_copies integration/test_copying
        integration/test_driver integration/test_joining integration/test_leaderless_partitions
        integration/test_nearest_replica integration/test_pipeline_faults integration/test_pipeline_gaps
        integration/test_pipeline_records integration/test_hanging_transactions integration/test_killed_in_transactions
        integration/test_pipeline_damage integration/test_pipeline_unreadable integration/test_rate_limit
        integration/test_session_ends
        integration/test_slow_source integration/test_slow_target integration/test_state_topics
        integration/test_target_start""",
    "bridge/pipeline/slices/transforming": "integration/test_driver integration/test_transforms",
    "bridge/policies": "e2e/test_source integration/test_mixed_sources",
    "bridge/policy.py": "e2e/test_bad_input e2e/test_validate",
    "bridge/positions": "integration/test_translate",
    "bridge/protocol": "contract/test_fuzz contract/test_openapi contract/test_samples e2e/test_validate",
    "bridge/service": """e2e/test_acknowledged e2e/test_bad_input e2e/test_doctor e2e/test_faults e2e/test_fencing
        e2e/test_health e2e/test_lifecycle e2e/test_logs e2e/test_planted_secrets e2e/test_readiness
        e2e/test_connect_clusters e2e/test_service_access e2e/test_sidecars e2e/test_wrong_clocks""",
    "bridge/service/answers": """contract/test_fuzz e2e/test_health e2e/test_lifecycle e2e/test_readiness
        e2e/test_readiness_topic e2e/test_runbook""",
    "bridge/service/checks": """contract/test_fuzz contract/test_worst_inputs e2e/test_bad_input e2e/test_keys
        e2e/test_validate""",
    "bridge/service/failover": "e2e/test_failback e2e/test_runbook integration/test_plan_file",
    "bridge/service/http": """contract/test_fuzz contract/test_openapi contract/test_samples
        contract/test_worst_inputs e2e/test_acknowledged
        e2e/test_bad_input e2e/test_fencing e2e/test_lifecycle e2e/test_service_access""",
    "bridge/service/ipc": "e2e/test_faults e2e/test_health e2e/test_lifecycle",
    "bridge/service/metrics": "e2e/test_dedicated e2e/test_health e2e/test_readiness e2e/test_source",
    "bridge/service/rounds": "e2e/test_faults e2e/test_health e2e/test_lifecycle e2e/test_logs e2e/test_wrong_clocks",
    "bridge/service/state": """e2e/test_acknowledged e2e/test_faults e2e/test_fencing e2e/test_lifecycle
        e2e/test_connect_clusters e2e/test_readiness e2e/test_sidecars e2e/test_take_over e2e/test_wrong_clocks""",
    "bridge/spark": """e2e/test_readiness_topic integration/test_beside_sparks_source
        integration/test_spark_connect integration/test_spark_sources
        integration/test_wrong_credentials""",
    "bridge/spark/auditing": "e2e/test_rights integration/test_audit",
    "bridge/spark/indexing": "e2e/test_rights e2e/test_source_take_over integration/test_translate",
    "bridge/spark/translating": "integration/test_translate",
    "bridge/spark/writing": """integration/test_spark_connect integration/test_spark_sink
        integration/test_spark_sink_kills""",
    "bridge/submit.py": "integration/test_spark_submit",
    "bridge/tokens.py": "e2e/test_service_access",
    "bridge/transforms": "integration/test_transforms",
    "bridge/translation": """e2e/test_beside_stock e2e/test_changing_topics e2e/test_group_rules e2e/test_plain_rule
        integration/test_java_failover integration/test_kinds_of_offset integration/test_stock_store""",
    "bridge/translation/bulk": "integration/test_translate",
    "bridge/translation/pairing": "e2e/test_source_take_over integration/test_translate",
    "bridge/translation/records": """e2e/test_changing_topics e2e/test_plain_rule integration/test_java_failover
        integration/test_kinds_of_offset integration/test_markers integration/test_transforms""",
    "bridge/translation/runs": """e2e/test_source_take_over integration/test_any_lag integration/test_copying
        integration/test_hand_back integration/test_markers integration/test_pipeline_faults
        integration/test_pipeline_gaps integration/test_reset integration/test_state_topics
        integration/test_target_start integration/test_transforms""",
    "connectors": """e2e/test_faults e2e/test_health e2e/test_internal_topics e2e/test_lifecycle
        integration/test_internal_topics""",
    "connectors/checkpoint": """e2e/test_checkpoints e2e/test_control_beside_stock e2e/test_control_lifecycle
        e2e/test_failback e2e/test_faults e2e/test_internal_topics e2e/test_known_defects e2e/test_stock_cases
        e2e/test_take_over integration/test_known_defects integration/test_known_defects_java
        integration/test_stock_store""",
    "connectors/config": """contract/test_followed_advice contract/test_wild_configs
        integration/test_wild_configs_of_stock e2e/test_bad_input e2e/test_keys e2e/test_validate
        integration/test_keys_of_java integration/test_stock_naming integration/test_values_of_java""",
    "connectors/group_offset": """e2e/test_beside_stock e2e/test_changing_topics e2e/test_failback e2e/test_faults
        e2e/test_group_rules e2e/test_lifecycle e2e/test_plain_rule integration/test_both_ways_home""",
    "connectors/group_translation": """e2e/test_beside_stock e2e/test_changing_topics e2e/test_checkpoints
        e2e/test_failback e2e/test_faults e2e/test_group_rules e2e/test_internal_topics e2e/test_known_defects
        e2e/test_lifecycle e2e/test_merged_sources e2e/test_plain_rule e2e/test_readiness e2e/test_readiness_topic
        e2e/test_runbook e2e/test_second_mirror e2e/test_stock_cases e2e/test_take_over integration/test_both_ways_home
        integration/test_known_defects integration/test_known_defects_java integration/test_mixed_sources
        integration/test_transforms""",
    "connectors/heartbeat": """e2e/test_control_beside_stock e2e/test_control_lifecycle e2e/test_faults
        e2e/test_stock_cases""",
    "connectors/sink": "e2e/test_mirror_sink e2e/test_rights e2e/test_worker_39",
    "connectors/source": """e2e/test_copy_again e2e/test_keys e2e/test_mirror_sink e2e/test_rights e2e/test_sidecars
        e2e/test_source e2e/test_source_life e2e/test_source_stock_cases e2e/test_source_take_over
        integration/test_source_rounds integration/test_stock_source""",
    "deploy": "e2e/test_compose unit/repository/test_deploy unit/repository/test_kubernetes",
    "docker-compose.yml": "e2e/test_compose unit/repository/test_deploy",
    "java-shim": """contract/test_samples e2e/test_acknowledged e2e/test_copy_again e2e/test_fencing e2e/test_lifecycle
        e2e/test_mbeans e2e/test_mirror_sink e2e/test_planted_secrets e2e/test_service_access e2e/test_sidecars
        e2e/test_source e2e/test_source_life e2e/test_source_take_over e2e/test_take_over e2e/test_validate
        e2e/test_connect_clusters e2e/test_worker_39 e2e/test_wrong_clocks""",
}
"""Tests by room, a folder or a file of the source: names in tests/, without `.py`."""


class UnknownRoomError(ValueError):
    """A path that selects nothing, in words for whoever has typed it."""


def selected(paths: Sequence[str]) -> list[str]:
    """Returns the files and folders of tests that a change of these paths selects."""
    found = {test for path in paths for test in _selected(path)}
    return sorted(test for test in found if not any(map(found.__contains__, _above(test))))


def _selected(path: str) -> set[str]:
    name = PurePosixPath(path).as_posix()
    if not (ROOT / name).exists():
        raise UnknownRoomError(f"{path} does not exist")
    rooms = {room for room in ROOMS if name in _above(room)}
    rooms.update(next(([room] for room in (name, *_above(name)) if room in ROOMS), []))
    result = {f"tests/{test}.py" for room in rooms for test in ROOMS[room].split()}
    if rooms and not name.startswith(_WITHOUT_UNITS):
        result.update(_units(PurePosixPath(name)))
    if not result:
        raise UnknownRoomError(f"{path} selects no test: source is {', '.join(SOURCE)}")
    return result


def _units(path: PurePosixPath) -> Iterator[str]:
    """Finds the unit tests of a file or a package. A module right in `bridge` has its tests right in tests/unit."""
    package = path if (ROOT / path).is_dir() else path.parent
    if package == PurePosixPath("bridge"):
        files = [UNIT] if path == package else sorted(UNIT.glob("test_*.py"))
        yield from (file.relative_to(ROOT).as_posix() for file in files)
        return
    inner = package.relative_to("bridge") if package.is_relative_to("bridge") else package
    while inner.parts and not any((UNIT / inner).rglob("test_*.py")):
        inner = inner.parent
    if inner.parts:
        yield (UNIT / inner).relative_to(ROOT).as_posix()


def _above(path: str) -> list[str]:
    """Returns the folders that a path is in, the nearest first."""
    return [folder.as_posix() for folder in PurePosixPath(path).parents if folder.parts]


def main(paths: Sequence[str]) -> int:
    if not paths:
        print(f"Which source? One or more paths in {', '.join(SOURCE)}", file=sys.stderr)
        return 2
    try:
        print("\n".join(selected(paths)))
    except UnknownRoomError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
