"""Translates positions of anything in bulk: of a savepoint, a database, a data lake (docs/translate.md)."""
