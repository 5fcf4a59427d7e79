"""What a protocol is: laws, states, records, hooks, and how several protocols share a network."""
