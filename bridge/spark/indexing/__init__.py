"""Indexes what another mirror has copied: a Spark job pairs both logs, the driver writes runs (docs/translate.md)."""
