"""Java client properties: their names, rules, key stores, logins and TLS."""
