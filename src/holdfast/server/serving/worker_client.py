"""The client of a served spec, with all of its consumers, made when this module is imported.

That is how members of its pools find it, which are processes of their own. The environment says what to load.
"""

from __future__ import annotations

import os

import msgspec

from holdfast.client.client import Holdfast
from holdfast.server.serving.declare import declare_staff
from holdfast.server.serving.loading import load
from holdfast.server.serving.workers import VARIABLE, WorkerOrders

orders = msgspec.json.decode(os.environ[VARIABLE], type=WorkerOrders)
hf = Holdfast(orders.url, tenant=orders.tenant, strict=True)
declare_staff(hf, load(hf, orders.sources, os.environ))
