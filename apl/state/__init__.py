"""What persists. The database is the only truth; SQL is spoken in this room only."""
