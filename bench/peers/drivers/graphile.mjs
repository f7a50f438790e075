// graphile-worker with the batching of its documentation: a local queue, and completions written together.

import { EventEmitter } from "node:events";

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { serve } from "./serving.mjs";

const TASK = "bench";
const CONCURRENT = 4;
const LOCAL_QUEUE = 2000;
const logger = new Logger(() => () => {});

await serve({
  async open(url) {
    this.pool = new pg.Pool({ connectionString: url, max: 10 });
    this.utils = await makeWorkerUtils({ pgPool: this.pool, logger });
  },

  async create() {
    await this.utils.migrate();
  },

  async enqueue(body) {
    await this.utils.addJob(TASK, body);
  },

  async enqueueMany(bodies) {
    await this.utils.addJobs(bodies.map((payload) => ({ identifier: TASK, payload })));
  },

  async work(meter) {
    const events = new EventEmitter();
    // Before that it looks whether its tables are up to date.
    events.once("worker:getJob:start", () => meter.start());
    const runner = await run({
      events,
      pgPool: this.pool,
      logger,
      noHandleSignals: true,
      taskList: { [TASK]: async (payload) => meter.handle(payload) },
      preset: {
        worker: {
          concurrentJobs: CONCURRENT,
          localQueue: { size: LOCAL_QUEUE },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
    await meter.done();
    await runner.stop();
  },

  async left() {
    const { rows } = await this.pool.query("SELECT count(*)::int AS jobs FROM graphile_worker._private_jobs");
    return rows[0].jobs;
  },

  async close() {
    await this.utils.release();
    await this.pool.end();
  },
});
