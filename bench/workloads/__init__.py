"""One file per workload; each says in `cases(sizes)` what it measures."""

from collections.abc import Callable, Iterable

from bench.cases import Case
from bench.sizes import Sizes
from bench.workloads import churn, w1, w2, w3, w3s, w4, w5, w6, w7, wf, wh, wr, ws

WORKLOADS: dict[str, Callable[[Sizes], Iterable[Case]]] = {
    "w1": w1.cases,
    "w2": w2.cases,
    "w3": w3.cases,
    "w3s": w3s.cases,
    "w4": w4.cases,
    "w5": w5.cases,
    "churn": churn.cases,
    "w6": w6.cases,
    "w7": w7.cases,
    "wf": wf.cases,
    "wh": wh.cases,
    "wr": wr.cases,
    "ws": ws.cases,
}
