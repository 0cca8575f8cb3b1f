"""Masks fields of JSON, compiled. Imported only where there is a record to be masked: it takes numba."""
