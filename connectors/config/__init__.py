"""Keys of the connectors: definitions, validation, plugins, and what becomes of each key."""
