"""Writes the table of keys that are not ours, Connect's own and those of Kafka's clients: honoured, ignored or
refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bridge.model.key_rules import KeyRule, Use
from connectors.config.connect_keys import COPYING, KEYS, OF_RECORDS
from connectors.config.key_effects import OVERRIDE
from connectors.registry import KINDS

ClientRow = tuple[str, KeyRule, Sequence[Use]]
"""A property of Kafka's clients, a rule that it has, and the uses where it has that."""

_HEAD = """
## What becomes of other keys

- **honoured**: it does what Kafka's documentation says, as far as the last column does not say otherwise.
- **ignored**: it would change speed, place or words, and nothing that arrives. Those that are given are listed, with
  the reason, under `ignored_settings` of the connector's status, in the service's log when the connector starts, in
  the worker's log when a configuration is validated, and by `mirror-bridge replicate`. In the answer of Connect's
  validation their values have `"visible": false`, except for keys of Connect's own.
- **refused**: it would change what arrives, and can't be honoured: an error of validate with the last column's words.

Values in parentheses ask for what happens anyway: with them nothing is ignored, and nothing refused. A key that is in
no table here is ignored, and named too; a property under a client's prefix that no Kafka client has is refused. And so
is a key that nobody has and that is written nearly as one that does something here: in another case, with `_` or `-` as
dots, or with one character too many, too few, wrong or misplaced: `Unknown configuration 'groupz': did you mean
'groups'?`
"""
_CONNECTS = """
### Of Connect

| Key | Connectors | What becomes of it | How, or why |
| --- | --- | --- | --- |
"""
_CLIENTS = """
### Of Kafka's clients

Under the prefixes of the second column, and those that mean several of them (`source.cluster.`, `consumer.`, …). Where
a connector makes no such client, and where Kafka's client of that role has no such property, it is ignored: the group
offset and checkpoint connectors write nothing themselves, and the heartbeat connector does not connect to the source.

| Property | Clients | What becomes of it | How, or why |
| --- | --- | --- | --- |
"""
_WHERE: Mapping[Use, str] = {
    Use.ADMIN: "`source.admin.`, `target.admin.`",
    Use.COPY: "`source.consumer.` of the source and sink connectors",
    Use.COMPARE: "`source.consumer.` of the others",
    Use.FOLLOW: "`target.consumer.`",
    Use.WRITE: "`target.producer.`, `producer.override.` of the source and sink connectors",
    Use.SYNC: "`source.producer.` of the source and sink connectors",
}


def effects_markdown(clients: Iterable[ClientRow]) -> str:
    rows = list(clients)
    return "".join((_HEAD, _CONNECTS, *_connects(), _CLIENTS, *_clients(rows)))


def _connects() -> Iterator[str]:
    named: dict[tuple[tuple[str, KeyRule], ...], list[str]] = {}
    for key in KEYS:
        named.setdefault(tuple(key.rules.items()), []).append(key.name)
    for rules, names in named.items():
        yield from (_row(names, _whose(kinds), rule) for rule, kinds in _by_rule(dict(rules)))
    yield from (_row([f"{OVERRIDE}*"], _whose(kinds), rule) for rule, kinds in _by_rule(OF_RECORDS))
    why = "over which it wins: copies are written past Connect"
    yield _cells(f"`{OVERRIDE}*`", _whose(COPYING), "as `target.producer.*`", why)


def _clients(rows: Sequence[ClientRow]) -> Iterator[str]:
    last = {name: number for number, (name, _, _) in enumerate(rows)}
    named_before = set[str]()
    for number, (name, rule, uses) in enumerate(rows):
        where = "; ".join(_WHERE[use] for use in uses)
        if last[name] == number:
            where = "all others" if name in named_before else "all that have it"
        named_before.add(name)
        yield _row([name], where, rule)


def _by_rule(rules: Mapping[str, KeyRule]) -> Iterator[tuple[KeyRule, list[str]]]:
    kinds_of: dict[KeyRule, list[str]] = {}
    for kind, rule in rules.items():
        kinds_of.setdefault(rule, []).append(kind)
    yield from kinds_of.items()


def _whose(kinds: Sequence[str]) -> str:
    return "all" if len(kinds) == len(KINDS) else ", ".join(kind.replace("_", " ") for kind in kinds)


def _row(names: Sequence[str], where: str, rule: KeyRule) -> str:
    values = [f"`{value}`" for value in rule.same] + [f"`{value}…`" for value in rule.beginnings]
    same = f" ({', '.join(values)})" if values else ""
    return _cells(", ".join(f"`{name}`" for name in names), where, f"{rule.effect}{same}", rule.why)


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
