"""A solver of delay differential equations, their periodic orbits included. It knows no network."""
