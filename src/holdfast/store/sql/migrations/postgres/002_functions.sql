-- What PostgreSQL does in one call, so that it costs one round trip.

-- A line of what was claimed. What `head` says of a line costs the messages of a run nothing, which are nearly all of them:
--     group, token, until, size, lane       without an id: a run is opened, its messages are the lines behind this one
--     NULL                                  the next message of that run
--     place                                 the message at this place of it: some before it are not wanted
--     group, token, until, attempt, lane    a message of its own, a row
--     group                                 without an id: this group is silent, it claims nothing before a beat
CREATE TYPE holdfast_grant AS (
    head           bigint[],
    id             uuid,
    body           bytea,
    headers        bytea,
    key            text,
    correlation_id text,
    reply_to       text,
    topic          text,
    expires_at     bigint,
    enqueued_at    bigint
);

-- Whether a message was not claimed yet by the reader whose cursor this is.
CREATE FUNCTION holdfast_is_pending(cursor holdfast_cursor, message_xid xid8, message_seq bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT pg_visible_in_snapshot(message_xid, (cursor).lo)
       AND (NOT pg_visible_in_snapshot(message_xid, (cursor).hi)
            OR (message_xid, message_seq) > ((cursor).xid, (cursor).seq))
$$;

-- The next messages of a window that began after `lo`, once those that were late have been read. It becomes a part of the query that asks:
-- who wants only places reads nothing but the index.
CREATE FUNCTION holdfast_read_fresh(wanted_lane bigint, hi pg_snapshot, after_xid xid8, after_seq bigint, wanted bigint)
RETURNS SETOF holdfast_message LANGUAGE sql STABLE AS $$
    SELECT m.* FROM holdfast_message m
    WHERE m.lane = wanted_lane AND (m.xid, m.seq) > (after_xid, after_seq) AND m.xid < pg_snapshot_xmax(hi)
      AND pg_visible_in_snapshot(m.xid, hi)
    ORDER BY m.xid, m.seq
    LIMIT wanted
$$;

-- The next messages of a window: first the late ones, whose transactions were still running at `lo`, then the fresh
-- ones, which began after it. Late xids are all below fresh ones, so one position serves both. The position is given
-- to each part as a single lower bound, because a scan with two of them could start at the wrong one.
CREATE FUNCTION holdfast_read_window(
    wanted_lane bigint, lo pg_snapshot, hi pg_snapshot, after_xid xid8, after_seq bigint, wanted bigint
) RETURNS SETOF holdfast_message LANGUAGE plpgsql STABLE AS $$
DECLARE
    fresh xid8 := pg_snapshot_xmax(lo);
    late xid8;
    found bigint := 0;
    part bigint;
BEGIN
    IF after_xid < fresh THEN
        FOR late IN SELECT x FROM pg_snapshot_xip(lo) AS x WHERE x >= after_xid AND pg_visible_in_snapshot(x, hi) ORDER BY x
        LOOP
            RETURN QUERY
                SELECT m.* FROM holdfast_message m
                WHERE m.lane = wanted_lane AND m.xid = late
                  AND m.seq > CASE WHEN late = after_xid THEN after_seq ELSE -1 END
                ORDER BY m.seq
                LIMIT wanted - found;
            GET DIAGNOSTICS part = ROW_COUNT;
            found := found + part;
            EXIT WHEN found >= wanted;
        END LOOP;
        after_xid := fresh;
        after_seq := -1;
    END IF;
    IF found < wanted THEN
        RETURN QUERY SELECT * FROM holdfast_read_fresh(wanted_lane, hi, after_xid, after_seq, wanted - found);
    END IF;
END
$$;

-- The first message, in (xid, seq) order, that waits for the reader whose cursor this is: of its window, of the transactions that were
-- running when the window ended, or of those that began later.
CREATE FUNCTION holdfast_first_pending(cursor holdfast_cursor, OUT xid xid8, OUT seq bigint)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT one.xid, one.seq
    FROM ((SELECT w.xid, w.seq
           FROM holdfast_read_window((cursor).lane, (cursor).lo, (cursor).hi, (cursor).xid, (cursor).seq, 1) AS w)
          UNION ALL
          SELECT m.xid, m.seq
          FROM pg_snapshot_xip((cursor).hi) AS late,
               LATERAL (SELECT n.xid, n.seq FROM holdfast_message n WHERE n.lane = (cursor).lane AND n.xid = late
                        ORDER BY n.seq LIMIT 1) AS m
          UNION ALL
          (SELECT m.xid, m.seq FROM holdfast_message m
           WHERE m.lane = (cursor).lane AND m.xid >= pg_snapshot_xmax((cursor).hi)
           ORDER BY m.xid, m.seq LIMIT 1)) AS one
    ORDER BY one.xid, one.seq
    LIMIT 1
$$;

-- Whether a cursor's window is the one that a topic's group begins with: what was there before it.
CREATE FUNCTION holdfast_is_past(lo pg_snapshot, hi pg_snapshot) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT pg_snapshot_xmax(lo) = '1' AND pg_snapshot_xmax(hi) > '1'
$$;

-- Whether a group has a past before it, and a rate to keep to in there.
CREATE FUNCTION holdfast_is_catching_up(reader bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM holdfast_limit l WHERE l.group_id = reader AND l.catch_up_count IS NOT NULL)
       AND EXISTS (SELECT 1 FROM holdfast_cursor c WHERE c.group_id = reader AND holdfast_is_past(c.lo, c.hi))
$$;

-- How many of the wanted messages may be claimed of the past now; NULL where there is none, or no rate for it. Only who has entered, so
-- that nobody else counts at the same time, gets any.
CREATE FUNCTION holdfast_past_room(cursor holdfast_cursor, wanted bigint, has_entered boolean, given_now bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine holdfast_limit;
BEGIN
    IF NOT holdfast_is_past(cursor.lo, cursor.hi) THEN
        RETURN NULL;
    END IF;
    SELECT l.* INTO mine FROM holdfast_limit l WHERE l.group_id = cursor.group_id;
    IF mine.catch_up_count IS NULL
       OR NOT EXISTS (SELECT 1 FROM holdfast_read_window(cursor.lane, cursor.lo, cursor.hi, cursor.xid, cursor.seq, 1))
    THEN
        RETURN NULL;
    END IF;
    RETURN CASE WHEN has_entered THEN greatest(0, least(wanted, mine.catch_up_count
        - (SELECT coalesce(sum(s.count), 0) FROM holdfast_start s
           WHERE s.group_id = cursor.group_id AND s.key = '<' AND s.at > holdfast_now(given_now) - mine.catch_up_per))) ELSE 0 END;
END
$$;

-- Notes that so many messages of the past were claimed, up to this cursor, and gives it back; after the last one, behind the past.
CREATE FUNCTION holdfast_leave_past(cursor holdfast_cursor, number bigint, given_now bigint)
RETURNS holdfast_cursor LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF number > 0 THEN
        PERFORM holdfast_note_start(cursor.group_id, '<', (SELECT l.catch_up_per FROM holdfast_limit l WHERE l.group_id = cursor.group_id),
                                    number, holdfast_now(given_now));
    END IF;
    IF NOT EXISTS (SELECT 1 FROM holdfast_read_window(cursor.lane, cursor.lo, cursor.hi, cursor.xid, cursor.seq, 1)) THEN
        cursor.lo := cursor.hi;
        cursor.xid := pg_snapshot_xmin(cursor.lo);
        cursor.seq := -1;
    END IF;
    RETURN cursor;
END
$$;

-- Where there may be something to claim, priority by priority, in one look and without a lock: most lanes are empty.
-- A lane has something behind its reader's position, or from transactions that were still running when the window's
-- snapshots were taken. (ORDER BY … LIMIT 1, because for a mere EXISTS the planner may walk over all that is done.)
CREATE FUNCTION holdfast_look(reader bigint, first_lane bigint, moment bigint)
RETURNS TABLE (limited bigint, source bigint, fed text, level bigint, in_rows boolean, in_lane boolean, in_past boolean)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN g.limited > 0 OR g.source IS NULL THEN g.limited WHEN holdfast_is_catching_up(reader) THEN 1 ELSE 0 END,
           g.source, g.fed, l.level,
           (SELECT 1 FROM holdfast_row r
            WHERE r.group_id = reader AND r.lane = first_lane + l.level AND r.state = 'pending' AND r.head
              AND r.due_at <= moment
            ORDER BY r.due_at, r.seq LIMIT 1) IS NOT NULL,
           (SELECT 1 FROM holdfast_message m
            WHERE m.lane = first_lane + l.level
              AND (m.xid, m.seq) > (greatest(c.xid, pg_snapshot_xmax(c.lo)),
                                    CASE WHEN c.xid >= pg_snapshot_xmax(c.lo) THEN c.seq ELSE -1 END)
            ORDER BY m.xid, m.seq LIMIT 1) IS NOT NULL
           OR EXISTS (SELECT 1 FROM (SELECT pg_snapshot_xip(c.lo) UNION SELECT pg_snapshot_xip(c.hi)) AS x (late),
                      LATERAL (SELECT 1 FROM holdfast_message m WHERE m.lane = first_lane + l.level AND m.xid = x.late
                               ORDER BY m.seq LIMIT 1) AS one),
           holdfast_is_past(c.lo, c.hi)
    FROM holdfast_group g,
         generate_series(0, 3) AS l (level),
         LATERAL (SELECT * FROM holdfast_cursor c WHERE c.group_id = reader AND c.lane = first_lane + l.level
                  ORDER BY c.number DESC LIMIT 1) AS c
    WHERE g.id = reader AND NOT g.paused AND g.dead_at IS NULL AND g.missing = 0
    ORDER BY l.level
$$;

-- Whether a group wants a message: by its name, if it does not want all, and if it is none that it skips.
CREATE FUNCTION holdfast_is_wanted(wanted text, skipped uuid[], name text, message_id uuid) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (wanted IS NULL OR name ~ wanted) AND (skipped IS NULL OR message_id <> ALL (skipped))
$$;

-- Takes the next run of a lane: looks how far it reaches, moves the cursor, records one lease for all of it. A run cannot reach
-- over the end of a window, so what is missing then comes as a second run from the next one.
-- The lock is taken by a statement of its own, so that the look after it sees everything that `hi` shows.
-- With `unkeyed` it stops before the first message that has a key. A group that wants only some messages (by their names, or because
-- it skips the others) has the others settled from the start; where it wants none of many, it moves on until it has passed by
-- enough for one turn. What was there before the group has a rate of its own, and ends a claim.
CREATE FUNCTION holdfast_claim_lane(
    reader bigint, wanted_lane bigint, wanted bigint, term bigint, new_worker text, given_now bigint, unkeyed boolean,
    has_entered boolean
) RETURNS SETOF holdfast_run LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    now_at holdfast_cursor;
    xids xid8[];
    seqs bigint[];
    new_until bigint;
    taken bigint;
    granted bigint;
    wanted_names text;
    skipped uuid[];
    is_picky boolean;
    others bigint[];
    other bigint;
    bits bytea;
    passed bigint := 0;
    looked bigint;
    is_new boolean := false;
    is_group boolean;
    room bigint;
    opened holdfast_run;
BEGIN
    PERFORM 1 FROM holdfast_lane l WHERE l.group_id = reader AND l.lane = wanted_lane FOR UPDATE;
    new_until := holdfast_now(given_now) + term;  -- Only now: the wait for the lock must not eat up the lease.
    SELECT g.wanted, (SELECT array_agg(s.id) FROM holdfast_skip s JOIN holdfast_message m ON m.id = s.id WHERE s.group_id = reader),
           g.source IS NOT NULL
    INTO wanted_names, skipped, is_group
    FROM holdfast_group g WHERE g.id = reader;
    is_picky := wanted_names IS NOT NULL OR skipped IS NOT NULL;
    SELECT c.* INTO now_at FROM holdfast_cursor c
    WHERE c.group_id = reader AND c.lane = wanted_lane ORDER BY c.number DESC LIMIT 1;
    IF NOT FOUND THEN  -- The group has ended while we waited.
        RETURN;
    END IF;
    room := CASE WHEN is_group THEN holdfast_past_room(now_at, wanted, has_entered, given_now) END;
    IF room = 0 THEN
        RETURN;
    END IF;
    wanted := coalesce(room, wanted);
    LOOP
        IF unkeyed THEN
            SELECT coalesce(min(w.place) FILTER (WHERE w.key IS NOT NULL) - 1, wanted) INTO wanted
            FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, wanted)
                 WITH ORDINALITY AS w (lane, xid, seq, id, body, headers, key, correlation_id, reply_to, topic, expires_at,
                                       enqueued_at, place);
        END IF;
        looked := wanted;
        others := NULL;
        IF is_picky THEN
            -- The shortest piece of the lane that has as many as wanted, or the longest that is looked at in one go.
            SELECT coalesce(max(w.place) FILTER (WHERE w.fits AND w.number <= wanted), count(*)),
                   array_agg(w.place - 1) FILTER (WHERE NOT w.fits) INTO looked, others
            FROM (SELECT f.place, f.fits, count(*) FILTER (WHERE f.fits) OVER (ORDER BY f.place) AS number
                  FROM (SELECT m.place, holdfast_is_wanted(wanted_names, skipped, m.topic, m.id) AS fits
                        FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, greatest(wanted, 100))
                             WITH ORDINALITY AS m (lane, xid, seq, id, body, headers, key, correlation_id, reply_to, topic,
                                                   expires_at, enqueued_at, place)) AS f) AS w;
        END IF;
        IF now_at.xid >= pg_snapshot_xmax(now_at.lo) THEN
            SELECT count(*), array_agg(w.xid), array_agg(w.seq) INTO taken, xids, seqs
            FROM holdfast_read_fresh(wanted_lane, now_at.hi, now_at.xid, now_at.seq, looked) w;
        ELSE
            SELECT count(*), array_agg(w.xid), array_agg(w.seq) INTO taken, xids, seqs
            FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, looked) w;
        END IF;
        granted := taken;
        bits := NULL;
        FOREACH other IN ARRAY coalesce(others, '{}') LOOP
            EXIT WHEN other >= taken;
            bits := set_bit(coalesce(bits, decode(repeat('00', ((taken + 7) / 8)::int), 'hex')), other, 1);
            granted := granted - 1;
        END LOOP;
        IF taken > 0 AND skipped IS NOT NULL THEN
            DELETE FROM holdfast_skip s
            USING holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, taken) w
            WHERE s.group_id = reader AND s.id = w.id;
        END IF;
        IF granted > 0 THEN
            INSERT INTO holdfast_run (token, group_id, lane, lo, hi, after_xid, after_seq, last_xid, last_seq, size, settled, until,
                                      worker, claimed_at)
            VALUES (nextval('holdfast_token'), reader, wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, xids[taken],
                    seqs[taken], taken, bits, new_until, new_worker, new_until - term)
            RETURNING * INTO opened;
            RETURN NEXT opened;
        END IF;
        IF taken > 0 THEN
            now_at.xid := xids[taken];
            now_at.seq := seqs[taken];
        END IF;
        wanted := wanted - granted;
        EXIT WHEN wanted = 0;
        IF taken > 0 AND is_picky THEN  -- There may be more in this window.
            passed := passed + taken;
            EXIT WHEN granted > 0 OR passed >= 10000;
            CONTINUE;
        END IF;
        EXIT WHEN is_new OR room IS NOT NULL;
        -- The window is used up: the next one begins where it ended, and ends now.
        is_new := true;
        now_at.lo := now_at.hi;
        now_at.hi := pg_current_snapshot();
        now_at.xid := pg_snapshot_xmin(now_at.lo);
        now_at.seq := -1;
    END LOOP;
    IF room IS NOT NULL THEN
        now_at := holdfast_leave_past(now_at, room - wanted, given_now);
    END IF;
    -- An empty window is remembered too, so that the next look need not pass over what is done.
    INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
    VALUES (reader, wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq);
    DELETE FROM holdfast_cursor c WHERE c.group_id = reader AND c.lane = wanted_lane AND c.number = now_at.number;
END
$$;

-- Takes due rows: of one priority, or (without a lane) the oldest that must be alone. A row that must be alone is taken
-- only as the first of a claim; a claim that has something already passes it by.
CREATE FUNCTION holdfast_claim_rows(
    reader bigint, wanted_lane bigint, wanted bigint, moment bigint, new_until bigint, new_worker text,
    may_be_alone boolean, OUT alone boolean, OUT granted holdfast_grant
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    new_token bigint;
    first_seq bigint;
    first_alone boolean;
BEGIN
    IF wanted_lane IS NULL THEN
        SELECT r.seq, r.alone INTO first_seq, first_alone FROM holdfast_row r
        WHERE r.group_id = reader AND r.state = 'pending' AND r.head AND r.alone AND r.due_at <= moment
        ORDER BY r.due_at, r.seq LIMIT 1 FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT r.seq, r.alone INTO first_seq, first_alone FROM holdfast_row r
        WHERE r.group_id = reader AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.due_at <= moment
          AND (may_be_alone OR NOT r.alone)
        ORDER BY r.due_at, r.seq LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF first_seq IS NULL THEN
        RETURN;
    END IF;
    new_token := nextval('holdfast_token');
    RETURN QUERY
        WITH several AS MATERIALIZED (
            SELECT r.seq FROM holdfast_row r
            WHERE NOT first_alone AND r.group_id = reader AND r.lane = wanted_lane AND r.state = 'pending' AND r.head
              AND r.due_at <= moment AND NOT r.alone
            ORDER BY r.due_at, r.seq
            LIMIT wanted
            FOR UPDATE SKIP LOCKED
        ), picked AS MATERIALIZED (
            SELECT first_seq AS seq WHERE first_alone
            UNION ALL
            SELECT several.seq FROM several
        ), taken AS (
            UPDATE holdfast_row r
            SET state = 'processing', attempts = r.attempts + 1, token = new_token, until = new_until,
                worker = new_worker, claimed_at = moment
            FROM picked WHERE r.seq = picked.seq
            RETURNING r.*
        )
        SELECT first_alone,
               ROW(ARRAY[reader, new_token, new_until, t.attempts, t.lane], t.id, t.body, t.headers, t.key, t.correlation_id,
                   t.reply_to, t.topic, t.expires_at, t.enqueued_at)::holdfast_grant
        FROM taken t
        ORDER BY t.due_at, t.seq;
END
$$;

-- Adds to what a group has done this second. Every session has a row of its own, so that nobody waits.
CREATE FUNCTION holdfast_count(
    reader bigint, moment bigint, new_arrived bigint, new_ended bigint, new_dead bigint, new_claimed bigint, new_completed bigint,
    new_failed bigint, new_lapsed bigint, since bigint, new_kept bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO holdfast_tally AS t
        (group_id, second, slot, arrived, ended, dead, claimed, completed, failed, lapsed, busy, kept)
    VALUES (reader, moment / 1000000, pg_backend_pid(), new_arrived, new_ended, new_dead, new_claimed, new_completed, new_failed,
            new_lapsed, new_completed * (moment - since), new_kept)
    ON CONFLICT (group_id, second, slot) DO UPDATE SET
        arrived = t.arrived + excluded.arrived, ended = t.ended + excluded.ended, dead = t.dead + excluded.dead,
        claimed = t.claimed + excluded.claimed, completed = t.completed + excluded.completed,
        failed = t.failed + excluded.failed, lapsed = t.lapsed + excluded.lapsed, busy = t.busy + excluded.busy,
        kept = t.kept + excluded.kept;
END
$$;

-- Wakes sleepers when this transaction commits; false if that has to be done afterwards. Whoever notifies holds a lock of the whole
-- server until its commit is on the disk, so one at a time may: nobody ever waits for that lock here. A queue of notifications
-- that is filling up, because someone listens without reading, must not fail what is stored.
CREATE FUNCTION holdfast_ring(channel text, payload text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF payload IS NULL OR pg_notification_queue_usage() > 0.5
       OR NOT pg_try_advisory_xact_lock(hashtextextended('holdfast_ring', 0)) THEN
        RETURN false;
    END IF;
    PERFORM pg_notify(channel, payload);
    RETURN true;
END
$$;

-- Stores messages of one queue, each with an idempotency key of its own, as far as their keys are not known yet; those that were
-- there before come back, with what they led to. If a key stands for another body, or is one to look after, or there is no room, nothing
-- happens, and someone has to look closer. Keys are taken in their order, so that rivals cannot wait for each other.
CREATE FUNCTION holdfast_enqueue_once(
    reader bigint, lane bigint, lanes bigint[], ids uuid[], bodies bytea[], headers bytea[], keys text[], correlation_ids text[],
    reply_tos text[], topics text[], ttls bigint[], once_keys text[], digests bytea[], windows bigint[], limited boolean,
    given_now bigint, OUT place bigint, OUT message_id uuid, OUT result bytea
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    moment bigint := holdfast_now(given_now);
    target bigint := lane / 4;
    taken uuid[];
    known bigint;
BEGIN
    WITH remembered AS (
        INSERT INTO holdfast_idempotency AS i (channel_id, key, message_id, digest, expires_at, lasts)
        SELECT target, n.key, n.id, n.digest, moment + n.duration / 4, n.duration
        FROM unnest(once_keys, ids, digests, windows) AS n (key, id, digest, duration)
        ORDER BY n.key COLLATE "C"
        ON CONFLICT (channel_id, key) DO UPDATE
        SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, lasts = excluded.lasts,
            ended = false, is_alias = excluded.is_alias
        WHERE i.ended AND i.expires_at <= moment
        RETURNING i.message_id
    )
    SELECT array_agg(r.message_id) INTO taken FROM remembered r;
    known := cardinality(ids) - coalesce(cardinality(taken), 0);
    IF known > 0 AND EXISTS (
        SELECT FROM unnest(once_keys, ids, digests) AS n (key, id, digest)
        JOIN holdfast_idempotency i ON i.channel_id = target AND i.key = n.key
        WHERE i.digest <> n.digest OR i.message_id <> n.id AND NOT i.ended AND i.expires_at <= moment
    ) THEN
        RAISE EXCEPTION SQLSTATE 'HF001' USING MESSAGE = 'a key stands for another body, or its message may have ended';
    END IF;
    IF limited THEN
        UPDATE holdfast_depth d SET bound = d.bound + cardinality(ids) - known
        WHERE d.channel_id = target AND d.bound + cardinality(ids) - known <= d.most AND d.settled_at <= moment
          AND NOT EXISTS (SELECT FROM holdfast_return r WHERE r.channel_id = target);
        IF NOT FOUND THEN
            RAISE EXCEPTION SQLSTATE 'HF001' USING MESSAGE = 'there may be no room';
        END IF;
    END IF;
    INSERT INTO holdfast_message (lane, id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at)
    SELECT coalesce(n.own_lane, holdfast_enqueue_once.lane), n.id, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic,
           moment + n.ttl, moment
    FROM unnest(lanes, ids, bodies, headers, keys, correlation_ids, reply_tos, topics, ttls)
         WITH ORDINALITY AS n (own_lane, id, body, headers, key, correlation_id, reply_to, topic, ttl, place)
    WHERE known = 0 OR n.id = ANY (taken)
    ORDER BY n.place;
    PERFORM holdfast_count(reader, moment, cardinality(ids) - known, 0, 0, 0, 0, 0, 0, 0, 0);
    IF known > 0 THEN
        RETURN QUERY
            SELECT n.place, i.message_id, r.result
            FROM unnest(once_keys, ids) WITH ORDINALITY AS n (key, id, place)
            JOIN holdfast_idempotency i ON i.channel_id = target AND i.key = n.key
            LEFT JOIN holdfast_result r ON r.message_id = i.message_id
            WHERE i.message_id <> n.id;
    END IF;
END
$$;

-- What became of a message with an idempotency key: whether it certainly has not ended (it waits in its lane, or is a row, or a replay of it is;
-- what a topic keeps may still be read), when it came, when it ended if that is known, and the open run that it is in. Of a topic's
-- message nobody notes when the last group was done.
CREATE FUNCTION holdfast_fate(
    key_channel bigint, message uuid, OUT is_live boolean, OUT since bigint, OUT ended_at bigint, OUT size bigint, OUT settled bytea,
    OUT gone bytea, OUT before bigint
) RETURNS SETOF record LANGUAGE sql STABLE AS $$
    WITH RECURSIVE lives (id) AS (
        SELECT message
        UNION
        SELECT d.replayed_as FROM lives JOIN holdfast_dead d ON d.message_id = lives.id WHERE d.replayed_as IS NOT NULL
    ), lane AS MATERIALIZED (
        SELECT m.lane, m.xid, m.seq, m.enqueued_at, c.kind, g.id AS group_id, holdfast_is_pending(last.c, m.xid, m.seq) AS is_pending
        FROM holdfast_message m
        JOIN holdfast_channel c ON c.id = key_channel
        LEFT JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
        LEFT JOIN LATERAL (SELECT k AS c FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = m.lane
                           ORDER BY k.number DESC LIMIT 1) AS last ON true
        WHERE m.id = message
    )
    SELECT EXISTS (SELECT FROM lane WHERE kind = 'topic' OR coalesce(is_pending, true))
           OR EXISTS (SELECT FROM lives JOIN holdfast_row r ON r.id = lives.id WHERE r.finished_at IS NULL),
           coalesce((SELECT enqueued_at FROM lane), (SELECT min(r.enqueued_at) FROM lives JOIN holdfast_row r ON r.id = lives.id)),
           CASE WHEN (SELECT c.kind FROM holdfast_channel c WHERE c.id = key_channel) = 'queue' THEN
               coalesce((SELECT max(r.finished_at) FROM holdfast_row r WHERE r.id = message),
                        (SELECT max(d.failed_at) FROM holdfast_dead d WHERE d.message_id = message AND d.replayed_as IS NULL))
           END,
           held.size, held.settled, held.gone, held.before
    FROM (SELECT 1) AS one
    LEFT JOIN LATERAL (
        SELECT u.size, u.settled, u.gone,
               (SELECT count(*) FROM holdfast_message n
                WHERE n.lane = u.lane AND (n.xid, n.seq) > (u.after_xid, u.after_seq) AND (n.xid, n.seq) < (lane.xid, lane.seq)
                  AND pg_visible_in_snapshot(n.xid, u.hi) AND NOT pg_visible_in_snapshot(n.xid, u.lo)) AS before
        FROM lane
        JOIN holdfast_run u ON u.group_id = lane.group_id AND u.finished_at IS NULL AND u.lane = lane.lane
         AND (u.after_xid, u.after_seq) < (lane.xid, lane.seq) AND (u.last_xid, u.last_seq) >= (lane.xid, lane.seq)
         AND pg_visible_in_snapshot(lane.xid, u.hi) AND NOT pg_visible_in_snapshot(lane.xid, u.lo)
        LIMIT 1
    ) AS held ON true
$$;

-- Removes a run and its messages; not those of a topic. Inside its range there may be strangers from other windows: only what its own
-- window shows goes.
CREATE FUNCTION holdfast_drop(mine holdfast_run, is_shared boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM holdfast_run r WHERE r.token = mine.token;
    IF is_shared THEN
        RETURN;
    END IF;
    DELETE FROM holdfast_message m
    WHERE m.lane = mine.lane
      AND (m.xid, m.seq) > (mine.after_xid, mine.after_seq) AND (m.xid, m.seq) <= (mine.last_xid, mine.last_seq)
      AND pg_visible_in_snapshot(m.xid, mine.hi) AND NOT pg_visible_in_snapshot(m.xid, mine.lo);
END
$$;

-- Ends runs of which every member was acked; the tokens of those that were still open and whole, and whom to wake because there is
-- room now. Nothing was split, so nothing needs a look.
CREATE FUNCTION holdfast_close(
    tokens bigint[], sizes bigint[], sinces bigint[], given_now bigint, OUT token bigint, OUT channel bigint
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine holdfast_run;
    reader holdfast_group;
    moment bigint := holdfast_now(given_now);
BEGIN
    FOR place IN 1..cardinality(tokens) LOOP
        SELECT r.* INTO mine FROM holdfast_run r
        WHERE r.token = tokens[place] AND r.size = sizes[place] AND r.settled IS NULL AND r.finished_at IS NULL
        FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        SELECT g.* INTO reader FROM holdfast_group g WHERE g.id = mine.group_id;
        IF reader.history > 0 THEN
            UPDATE holdfast_run r SET finished_at = moment WHERE r.token = mine.token;
        ELSE
            PERFORM holdfast_drop(mine, reader.source IS NOT NULL);
        END IF;
        PERFORM holdfast_count(mine.group_id, moment, 0, mine.size, 0, 0, mine.size, 0, 0, sinces[place],
                               CASE WHEN reader.history > 0 THEN mine.size ELSE 0 END);
        token := mine.token;
        channel := CASE WHEN reader.limited = 2 THEN reader.channel_id END;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Ends some claims of a run in one call: the members in `acked` are done, those in `leaving` become rows, each with its own
-- delay and history (whose last time is filled in here). Gives back the bits of those whose claims had not ended before,
-- and whom to wake; nothing if the run is over.
CREATE FUNCTION holdfast_split(
    wanted_token bigint, acked bytea, leaving bigint[], ids uuid[], delays bigint[], attempts bigint[], alone boolean[],
    errors bytea[], since bigint, given_now bigint, OUT applied bytea, OUT channel bigint, OUT makes_room boolean
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine holdfast_run;
    reader holdfast_group;
    moment bigint;
    spot bigint;
    bits int;
    returned bigint := 0;
    failed bigint := 0;
    done bigint := 0;
    changed boolean := false;
    finished boolean := true;
BEGIN
    SELECT r.* INTO mine FROM holdfast_run r WHERE r.token = wanted_token AND r.finished_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT g.* INTO reader FROM holdfast_group g WHERE g.id = mine.group_id;
    moment := holdfast_now(given_now);
    mine.settled := coalesce(mine.settled, decode(repeat('00', ((mine.size + 7) / 8)::int), 'hex'));
    mine.gone := coalesce(mine.gone, decode(repeat('00', ((mine.size + 7) / 8)::int), 'hex'));
    applied := acked;
    FOR place IN 1..cardinality(leaving) LOOP
        spot := leaving[place];
        CONTINUE WHEN get_bit(mine.settled, spot) = 1;
        INSERT INTO holdfast_row (group_id, id, lane, state, due_at, attempts, alone, errors, body, headers, key, correlation_id,
                                  reply_to, topic, expires_at, enqueued_at)
        SELECT mine.group_id, m.id, m.lane, 'pending', moment + delays[place], attempts[place], alone[place],
               errors[place] || convert_to(moment::text || '}]', 'UTF8'), m.body, m.headers, m.key, m.correlation_id,
               m.reply_to, m.topic, m.expires_at, m.enqueued_at
        FROM holdfast_message m WHERE m.id = ids[place];
        IF reader.source IS NULL THEN
            DELETE FROM holdfast_message m WHERE m.id = ids[place];
            mine.gone := set_bit(mine.gone, spot, 1);
        END IF;
        returned := returned + 1;
        failed := failed + CASE WHEN errors[place] IS NULL THEN 0 ELSE 1 END;
        applied := set_bit(applied, spot, 1);
    END LOOP;
    FOR place IN 0..length(applied) - 1 LOOP
        bits := get_byte(applied, place) & ~get_byte(mine.settled, place);
        applied := set_byte(applied, place, bits);
        changed := changed OR bits > 0;
        done := done + length(replace(bits::bit(8)::text, '0', ''));
        bits := bits | get_byte(mine.settled, place);
        mine.settled := set_byte(mine.settled, place, bits);
        finished := finished AND bits = CASE WHEN mine.size - 8 * place >= 8 THEN 255 ELSE (1 << (mine.size - 8 * place)::int) - 1 END;
    END LOOP;
    IF returned > 0 THEN
        INSERT INTO holdfast_return (channel_id)
        SELECT d.channel_id FROM holdfast_depth d WHERE d.channel_id = reader.channel_id;
    END IF;
    channel := reader.channel_id;
    makes_room := reader.limited = 2;
    RETURN NEXT;
    done := done - returned;
    IF done > 0 OR failed > 0 OR changed AND finished THEN
        PERFORM holdfast_count(reader.id, moment, 0, done, 0, 0, done, failed, 0, since,
                               CASE WHEN changed AND finished AND reader.history > 0 THEN mine.size ELSE 0 END);
    END IF;
    IF NOT changed THEN
        RETURN;
    ELSIF NOT finished THEN
        UPDATE holdfast_run r SET settled = mine.settled, gone = mine.gone WHERE r.token = mine.token;
    ELSIF reader.history > 0 THEN
        UPDATE holdfast_run r SET settled = mine.settled, gone = mine.gone, finished_at = moment WHERE r.token = mine.token;
    ELSE
        PERFORM holdfast_drop(mine, reader.source IS NOT NULL);
    END IF;
END
$$;
