"""Translation of positions in DataFrames (docs/translate.md)."""
