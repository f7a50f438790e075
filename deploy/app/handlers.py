"""The consumers that `holdfast work handlers:hf` runs. Replace them with your own."""

import os

from holdfast import Holdfast

# The migration is a step of the deployment, and the spec declares the queues.
hf = Holdfast(os.environ["HOLDFAST_DB"], migrate=False, strict=True)


@hf.consumer("emails", timeout="5m")
def send(message):
    print("sending an email for", message.id, flush=True)
