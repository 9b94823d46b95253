"""In which order relations are joined: cardinality, cost, exact search, beam beyond."""
