// Counts what a consumer handles, and says when it has handled enough; the twin of meter.py.

import { setTimeout as sleep } from "node:timers/promises";

// Seconds of the host's monotonic clock, the same in every process.
export const monotonic = () => Number(process.hrtime.bigint()) / 1e9;

export class Meter {
  numbers = [];
  waits = [];
  started = 0;
  ended = 0;

  // `loaded`: the queue is full already, for a peer that should then be set up otherwise.
  constructor({ expected, seconds, patience, quiet, loaded }) {
    Object.assign(this, { expected, seconds, quiet, loaded });
    this.patientUntil = monotonic() + patience;
  }

  start() {
    this.started = monotonic();
  }

  handle(body) {
    this.ended = monotonic();
    this.numbers.push(body.n);
    if (body.sent) this.waits.push(this.ended - body.sent);
  }

  settled() {
    this.ended = monotonic();
  }

  isDone() {
    const now = monotonic();
    if (!this.numbers.length) return now > this.patientUntil;
    return (
      this.numbers.length >= this.expected || now - this.started > this.seconds || now - this.ended > this.quiet
    );
  }

  async done() {
    while (!this.isDone()) await sleep(10);
  }

  answer() {
    return { numbers: this.numbers, waits: this.waits, started: this.started, ended: this.ended };
  }
}

// Waits beside a worker that has nothing to do; then says what that took.
export class Watch {
  claimed = 0;

  constructor(seconds) {
    this.seconds = seconds;
  }

  start() {}

  handle() {
    this.claimed += 1;
  }

  settled() {}

  isDone() {
    return false;
  }

  async done() {
    await sleep(1000 * Math.min(1, this.seconds));
    const before = process.cpuUsage();
    await sleep(1000 * this.seconds);
    const { user, system } = process.cpuUsage(before);
    this.cost = { cpu: (user + system) / 1e6, rss: process.memoryUsage.rss() };
  }

  answer() {
    return { ...this.cost, claimed: this.claimed };
  }
}
