"""The contract of a protocol: laws, states, records, hooks, and the assignment of protocols to flows and links."""
