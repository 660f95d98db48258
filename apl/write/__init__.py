"""Text to state: ingestion now; gates and consolidation have their place here."""
