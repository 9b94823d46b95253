"""Joins that no equality makes: ranges, distances, arrays, texts, as candidates and a condition."""
