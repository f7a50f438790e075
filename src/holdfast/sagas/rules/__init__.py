"""The rules of sagas: pure functions from an event to a new state and what follows from it."""
