"""Doctor: collects facts about a connector's configuration, clusters and machine, and checks them."""
