"""SQL text to a bound query: parse, resolve names, inline, classify; refuse with code and line."""
