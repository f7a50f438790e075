// plainjob on better-sqlite3: one job at a time, two commits each. It keeps done jobs; they count as gone.

import Database from "better-sqlite3";
import { JobStatus, better, defineQueue, defineWorker } from "plainjob";

import { serve } from "./serving.mjs";

const TYPE = "bench";
const POLL_MILLISECONDS = 10;
const SILENT = { error: console.error, warn() {}, info() {}, debug() {} };

await serve({
  async open(url) {
    const connection = better(new Database(url.replace("sqlite:///", "")));
    this.queue = defineQueue({ connection, logger: SILENT });
    // It asks for NORMAL itself: set afterwards, so that a commit is on the disk.
    connection.pragma("synchronous = FULL");
  },

  async create() {},

  async enqueue(body) {
    this.queue.add(TYPE, body);
  },

  async enqueueMany(bodies) {
    this.queue.addMany(TYPE, bodies);
  },

  async work(meter) {
    const handle = (job) => {
      meter.handle(JSON.parse(job.data));
      // With jobs at hand it lets no timer run, so the meter's own is not enough.
      if (meter.isDone()) worker.stop();
    };
    const worker = defineWorker(TYPE, handle, {
      queue: this.queue,
      pollIntervall: POLL_MILLISECONDS,
      logger: SILENT,
      onCompleted: () => meter.settled(),
    });
    meter.start();
    const running = worker.start();
    await meter.done();
    await worker.stop();
    await running;
  },

  async left() {
    const [waiting, taken] = [JobStatus.Pending, JobStatus.Processing];
    return this.queue.countJobs({ status: waiting }) + this.queue.countJobs({ status: taken });
  },

  async close() {
    this.queue.close();
  },
});
