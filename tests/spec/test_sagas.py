"""A saga of a spec is the one that a program would declare."""

from holdfast import Expression, Step, Wait
from holdfast.commands.rules import command_queue
from holdfast.core.retry import Backoff
from holdfast.sagas.rules.declaration import saga_spec
from holdfast.spec.declarations import saga_settings
from holdfast.spec.reading import read_text

ORDER = """
app Shop {
  owner mia {}
  queue mails {}
  queue sorries {}
  saga order {
    on_failure: stop
    owner: mia
    keep: 7d
    step pay { command: Card.Charge { amount: data.price * 2 } undo: command Card.Refund { charge: steps.pay.id } }
    parallel both {
      when: data.price > 0
      step mail {
        queue: mails, input: {"to": data.to}, undo_queue: sorries, undo_input: data.to
        timeout: 5m, retry: 2, backoff: [1s, 5s]
      }
      step agreed { event: "agreed", timeout: 1d, when: data.ask }
    }
    step again { queue: mails, retry: 1, backoff: 1s..1m, when: data.again }
    step calm { wait: 1h }
    step then { until: data.at }
  }
}
"""


def test_a_saga_of_a_spec_is_what_a_program_would_declare() -> None:
    charge, refund = command_queue("Card.Charge"), command_queue("Card.Refund")
    paid, again = {"amount": Expression("data.price * 2")}, {"charge": Expression("steps.pay.id")}
    mail = Step(
        "mail",
        "mails",
        undo="sorries",
        timeout="5m",
        retry=2,
        backoff=[1, 5],
        input=Expression('{"to": data.to}'),
        undo_input=Expression("data.to"),
        when=Expression("data.price > 0"),
    )
    asked = Expression("(data.price > 0) && (data.ask)")
    steps = [
        Step("pay", charge, undo=refund, input=paid, undo_input=again),
        [mail, Wait("agreed", signal="agreed", timeout="1d", when=asked)],
        Step("again", "mails", retry=1, backoff=Backoff(1.0, 60.0), when=Expression("data.again")),
        Wait("calm", delay="1h"),
        Wait("then", until=Expression("data.at")),
    ]
    reading = read_text(ORDER)
    assert reading.problems == []
    assert reading.spec is not None
    assert saga_spec(**saga_settings(reading.spec.sagas["order"])) == saga_spec(steps, "stop", "mia", "7d")
