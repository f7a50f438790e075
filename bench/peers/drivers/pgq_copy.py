"""PgQ as its own Python library writes many events: past its function, straight into the table of the moment."""

from datetime import UTC, datetime

from bench.peers.drivers.pgq import QUEUE, TYPE, PgQ
from bench.peers.drivers.serving import serve


class PgQCopy(PgQ):
    def insert(self, texts: list[str]) -> None:
        now = datetime.now(UTC)
        with self.connection.transaction():
            table = self._ask("SELECT pgq.current_event_table(%s)", QUEUE)
            with self.connection.cursor().copy(f"COPY {table} (ev_time, ev_type, ev_data) FROM STDIN") as copy:
                for text in texts:
                    copy.write_row((now, TYPE, text))


if __name__ == "__main__":
    serve(PgQCopy())
