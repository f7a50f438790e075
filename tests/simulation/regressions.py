"""Seeds that failed once, and what they showed. Each finding has a test of its own as well: when the code under test
asks other questions of the database, a seed tells another story."""

SQLITE: dict[int, str] = {}

POSTGRES: dict[int, str] = {
    0: "a claim was acked, then given up; the connection was lost, and the second was called done as well",
}
