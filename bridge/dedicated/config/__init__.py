"""The file of dedicated mode as a plan: clusters, flows, and the configurations of their connectors. Pure but for
`reading`."""
