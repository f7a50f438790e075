// The Node end of the protocol: serve(driver) answers one command per line until its input ends; the twin of serving.py.
//
// A driver has open(url), create(), enqueue(body), enqueueMany(bodies), work(meter), left() and close(). work() hands
// every message to the meter until the meter is done, and returns when every ack is written.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { Meter, Watch, monotonic } from "./meter.mjs";
import { bodies, body } from "./payload.mjs";

const answer = (found) => process.stdout.write(JSON.stringify(found) + "\n");

const commands = {
  async ready() {
    return {};
  },

  async create(driver) {
    await driver.create();
    return {};
  },

  async enqueue(driver, { seconds }) {
    const started = monotonic();
    let count = 0;
    for (; monotonic() - started < seconds; count += 1) await driver.enqueue(body(count));
    return { count, took: monotonic() - started };
  },

  async enqueue_many(driver, { count, call, seconds }) {
    const started = monotonic();
    let sent = 0;
    while (sent < count && monotonic() - started < seconds) {
      const size = Math.min(call, count - sent);
      await driver.enqueueMany(bodies(sent, size));
      sent += size;
    }
    return { count: sent, took: monotonic() - started };
  },

  async produce(driver, { count, rate }) {
    for (let number = 0; number < count; number += 1) {
      // A random moment of each slot, so that no poller can fall into step.
      await sleep((1000 * (0.5 + Math.random())) / rate);
      await driver.enqueue({ ...body(number), sent: monotonic() });
    }
    return {};
  },

  async work(driver, command) {
    const meter = new Meter(command);
    await driver.work(meter);
    return meter.answer();
  },

  async idle(driver, { seconds }) {
    const watch = new Watch(seconds);
    await driver.work(watch);
    return watch.answer();
  },

  async left(driver) {
    return { left: await driver.left() };
  },
};

export async function serve(driver) {
  // What a peer logs must not be taken for an answer.
  console.log = console.info = console.debug = console.error;
  await driver.open(process.argv[2]);
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      answer(await commands[command.do](driver, command));
    } catch (problem) {
      console.error(problem);
      answer({ error: String(problem) });
    }
  }
  await driver.close();
}
