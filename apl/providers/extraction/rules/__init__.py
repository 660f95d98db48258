"""How parsed sentences become triples: English dependency rules, rules for other label sets, and noun phrases."""
