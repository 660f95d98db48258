"""State to payload: nothing in here changes the store."""
