-- Claims, and the limits that they keep to.

-- Keeps other claims of these groups out, as far as they are limited, and says how many of the wanted messages may be claimed now.
-- Always locked in the same order, by a statement of its own: what is counted after it includes every claim before. What is
-- counted are open leases, so there is nothing that could leak.
CREATE FUNCTION holdfast_enter(
    readers bigint[], reader bigint, wanted bigint, given_now bigint,
    OUT mine holdfast_limit, OUT free bigint, OUT moment bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM holdfast_limit l WHERE l.group_id = ANY (readers) ORDER BY l.group_id FOR UPDATE;
    moment := holdfast_now(given_now);
    SELECT l.* INTO mine FROM holdfast_limit l WHERE l.group_id = reader;
    free := wanted;
    IF mine.concurrency IS NOT NULL THEN
        free := least(free, mine.concurrency
            - (SELECT count(*) FROM holdfast_row r WHERE r.group_id = reader AND r.state = 'processing')
            - (SELECT coalesce(sum(r.size - coalesce(
                          length(replace(('x' || encode(r.settled, 'hex'))::varbit::text, '0', '')), 0)), 0)
               FROM holdfast_run r WHERE r.group_id = reader AND r.finished_at IS NULL));
    END IF;
    IF mine.rate_count IS NOT NULL THEN
        free := least(free, mine.rate_count
            - (SELECT coalesce(sum(s.count), 0) FROM holdfast_start s
               WHERE s.group_id = reader AND s.key = '' AND s.at > moment - mine.rate_per));
    END IF;
END
$$;

-- Notes that so many messages of a group ('') or a key were claimed, if that has a rate (so many per something). Whatever began in
-- the same slot counts as long as the last of it.
CREATE FUNCTION holdfast_note_start(reader bigint, new_key text, per bigint, number bigint, moment bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF new_key IS NULL OR per IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO holdfast_start AS s (group_id, key, slot, at, count)
    VALUES (reader, new_key, moment / greatest(per / 64, 1), moment, number)
    ON CONFLICT (group_id, key, slot) DO UPDATE SET at = greatest(s.at, excluded.at), count = s.count + excluded.count;
END
$$;

-- Whether a key has room for more, and for how many.
CREATE FUNCTION holdfast_key_room(mine holdfast_limit, wanted_key text, held bigint, most bigint, moment bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT least(most, (mine).key_concurrency - held,
                 CASE WHEN (mine).key_rate_count IS NOT NULL THEN (mine).key_rate_count
                      - (SELECT coalesce(sum(s.count), 0) FROM holdfast_start s
                         WHERE s.group_id = (mine).group_id AND s.key = '=' || wanted_key
                           AND s.at > moment - (mine).key_rate_per) END)::bigint
$$;

-- How many messages of each key are held; there are no more of them than open leases. A run with keys was claimed before they had
-- limits; its messages count until it is over.
CREATE FUNCTION holdfast_held_by_key(reader bigint) RETURNS TABLE (key text, count bigint) LANGUAGE sql STABLE AS $$
    SELECT held.key, count(*) FROM (
        SELECT r.key FROM holdfast_row r WHERE r.group_id = reader AND r.state = 'processing' AND r.key IS NOT NULL
        UNION ALL
        SELECT m.key FROM holdfast_run r
        JOIN holdfast_message m ON m.lane = r.lane
         AND (m.xid, m.seq) > (r.after_xid, r.after_seq) AND (m.xid, m.seq) <= (r.last_xid, r.last_seq)
         AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo)
        WHERE r.group_id = reader AND r.finished_at IS NULL AND m.key IS NOT NULL
    ) AS held
    GROUP BY held.key
$$;

-- The next due rows of a lane, oldest first, and which of them their keys have room for.
CREATE FUNCTION holdfast_front(
    mine holdfast_limit, wanted_lane bigint, wanted bigint, moment bigint, may_be_alone boolean
) RETURNS TABLE (place bigint, seq bigint, alone boolean, free boolean) LANGUAGE sql STABLE AS $$
    WITH front AS MATERIALIZED (
        SELECT r.seq, r.key, r.alone, r.due_at FROM holdfast_row r
        WHERE r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.due_at <= moment
          AND (may_be_alone OR NOT r.alone)
        ORDER BY r.due_at, r.seq
        LIMIT wanted
    ), room AS MATERIALIZED (
        SELECT k.key, holdfast_key_room(mine, k.key, coalesce(h.count, 0), wanted, moment) AS count
        FROM (SELECT DISTINCT f.key FROM front f WHERE f.key IS NOT NULL) AS k
        LEFT JOIN holdfast_held_by_key((mine).group_id) AS h ON h.key = k.key
    )
    SELECT row_number() OVER (ORDER BY f.due_at, f.seq), f.seq, f.alone,
           f.key IS NULL OR row_number() OVER (PARTITION BY f.key ORDER BY f.due_at, f.seq) <= room.count
    FROM front f
    LEFT JOIN room ON room.key = f.key
    ORDER BY f.due_at, f.seq
$$;

-- The first due row of each key that has room, key by key: those behind the one whose turn it was last, or (`again`) first one without
-- a key and then those up to it. It steps from key to key by the index, over full ones too, and stops when there are enough.
CREATE FUNCTION holdfast_round(
    mine holdfast_limit, wanted_lane bigint, wanted bigint, moment bigint, may_be_alone boolean, again boolean
) RETURNS TABLE (seq bigint, key text, alone boolean) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE keys (key) AS (
        SELECT CASE WHEN again OR (mine).turn IS NULL
            THEN (SELECT r.key FROM holdfast_row r
                  WHERE r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.key >= ''
                  ORDER BY r.key LIMIT 1)
            ELSE (SELECT r.key FROM holdfast_row r
                  WHERE r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head
                    AND r.key > (mine).turn
                  ORDER BY r.key LIMIT 1)
        END
        UNION ALL
        SELECT (SELECT r.key FROM holdfast_row r
                WHERE r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.key > k.key
                ORDER BY r.key LIMIT 1)
        FROM keys k
        WHERE k.key IS NOT NULL AND (NOT again OR k.key < (mine).turn)
    ), held AS MATERIALIZED (
        SELECT h.key, h.count FROM holdfast_held_by_key((mine).group_id) AS h
    )
    (SELECT r.seq, NULL, r.alone FROM holdfast_row r
     WHERE again AND r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.key IS NULL
       AND r.due_at <= moment AND (may_be_alone OR NOT r.alone)
     ORDER BY r.key, r.due_at, r.seq LIMIT 1)
    UNION ALL
    SELECT first.seq, k.key, first.alone
    FROM keys k,
         LATERAL (SELECT r.seq, r.alone FROM holdfast_row r
                  WHERE r.group_id = (mine).group_id AND r.lane = wanted_lane AND r.state = 'pending' AND r.head AND r.key = k.key
                    AND r.due_at <= moment AND (may_be_alone OR NOT r.alone)
                  ORDER BY r.due_at, r.seq LIMIT 1) AS first
    WHERE (NOT again OR k.key <= (mine).turn)
      AND holdfast_key_room(mine, k.key, coalesce((SELECT h.count FROM held h WHERE h.key = k.key), 0), 1, moment) > 0
    LIMIT wanted
$$;

-- The rows that a claim may take of a group whose keys have limits; the first one says whether it must be alone. Oldest first,
-- unless the oldest are all of full keys: then once round the keys, so that a full key hides no other.
CREATE FUNCTION holdfast_pick(
    mine holdfast_limit, wanted_lane bigint, wanted bigint, moment bigint, may_be_alone boolean,
    OUT picked bigint[], OUT alone boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    several bigint[];
    seen bigint;
    last_key text;
BEGIN
    SELECT count(*), array_agg(f.seq ORDER BY f.place) FILTER (WHERE f.free),
           array_agg(f.seq ORDER BY f.place) FILTER (WHERE f.free AND NOT f.alone),
           (array_agg(f.alone ORDER BY f.place) FILTER (WHERE f.free))[1]
    INTO seen, picked, several, alone
    FROM holdfast_front(mine, wanted_lane, wanted + 200, moment, may_be_alone) AS f;
    IF picked IS NULL AND seen = wanted + 200 THEN
        FOR turn IN 0..1 LOOP
            SELECT array_agg(n.seq ORDER BY n.place), array_agg(n.seq ORDER BY n.place) FILTER (WHERE NOT n.alone),
                   (array_agg(n.alone ORDER BY n.place))[1], (array_agg(n.key ORDER BY n.place DESC))[1]
            INTO picked, several, alone, last_key
            FROM holdfast_round(mine, wanted_lane, wanted, moment, may_be_alone, turn = 1)
                 WITH ORDINALITY AS n (seq, key, alone, place);
            EXIT WHEN picked IS NOT NULL;
        END LOOP;
        UPDATE holdfast_limit l SET turn = last_key WHERE l.group_id = mine.group_id AND picked IS NOT NULL;
    END IF;
    picked := CASE WHEN alone THEN picked[1:1] ELSE several[1:wanted] END;
END
$$;

-- As holdfast_claim_rows, for a group whose keys have limits.
CREATE FUNCTION holdfast_claim_keyed(
    mine holdfast_limit, wanted_lane bigint, wanted bigint, moment bigint, new_until bigint, new_worker text,
    may_be_alone boolean, OUT alone boolean, OUT granted holdfast_grant
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    choice record;
    new_token bigint;
BEGIN
    IF wanted_lane IS NULL THEN
        SELECT ARRAY[r.seq] AS picked, true AS alone INTO choice
        FROM (SELECT r.seq, r.key FROM holdfast_row r
              WHERE r.group_id = mine.group_id AND r.state = 'pending' AND r.head AND r.alone AND r.due_at <= moment
              ORDER BY r.due_at, r.seq LIMIT 20) AS r
        LEFT JOIN holdfast_held_by_key(mine.group_id) AS h ON h.key = r.key
        WHERE r.key IS NULL OR holdfast_key_room(mine, r.key, coalesce(h.count, 0), 1, moment) > 0
        LIMIT 1;
    ELSE
        SELECT p.picked, p.alone INTO choice FROM holdfast_pick(mine, wanted_lane, wanted, moment, may_be_alone) AS p;
    END IF;
    IF choice.picked IS NULL THEN
        RETURN;
    END IF;
    new_token := nextval('holdfast_token');
    RETURN QUERY
        WITH free AS MATERIALIZED (
            SELECT r.seq FROM holdfast_row r WHERE r.seq = ANY (choice.picked) AND r.state = 'pending' FOR UPDATE SKIP LOCKED
        ), taken AS (
            UPDATE holdfast_row r
            SET state = 'processing', attempts = r.attempts + 1, token = new_token, until = new_until, worker = new_worker,
                claimed_at = moment
            FROM free WHERE r.seq = free.seq
            RETURNING r.*
        )
        SELECT choice.alone,
               ROW(ARRAY[mine.group_id, new_token, new_until, t.attempts, t.lane], t.id, t.body, t.headers, t.key, t.correlation_id,
                   t.reply_to, t.topic, t.expires_at, t.enqueued_at)::holdfast_grant
        FROM taken t
        ORDER BY t.due_at, t.seq;
END
$$;

-- Messages with a key that a lane still has (they came before their key had a limit, or from a client that had not heard of it) become
-- rows when a claim meets them. Whether there were any.
CREATE FUNCTION holdfast_leave_lane(reader bigint, wanted_lane bigint, wanted bigint, moment bigint, new_alone boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    last holdfast_cursor;
    seen bigint;
    moved bigint;
    any_moved boolean := false;
BEGIN
    PERFORM 1 FROM holdfast_lane l WHERE l.group_id = reader AND l.lane = wanted_lane FOR UPDATE;
    SELECT c.* INTO last FROM holdfast_cursor c
    WHERE c.group_id = reader AND c.lane = wanted_lane ORDER BY c.number DESC LIMIT 1;
    LOOP
        WITH windowed AS (
            SELECT 0 AS part, w.xid, w.seq, w.id, w.key
            FROM holdfast_read_window(wanted_lane, last.lo, last.hi, last.xid, last.seq, wanted) AS w
        ), later AS (
            SELECT 1 AS part, m.xid, m.seq, m.id, m.key FROM holdfast_message m
            WHERE m.lane = wanted_lane AND m.xid >= pg_snapshot_xmin(last.hi) AND NOT pg_visible_in_snapshot(m.xid, last.hi)
            ORDER BY m.xid, m.seq
            LIMIT wanted
        ), front AS MATERIALIZED (
            SELECT * FROM (SELECT * FROM windowed UNION ALL SELECT * FROM later) AS both_parts
            ORDER BY part, xid, seq
            LIMIT wanted
        ), leaving AS (
            DELETE FROM holdfast_message m USING front f WHERE f.key IS NOT NULL AND m.id = f.id
            RETURNING f.part, m.*
        ), arriving AS (
            INSERT INTO holdfast_row (group_id, id, lane, state, due_at, alone, body, headers, key, correlation_id, reply_to, topic,
                                      expires_at, enqueued_at)
            SELECT reader, n.id, n.lane, 'pending', moment, new_alone, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic,
                   n.expires_at, n.enqueued_at
            FROM leaving n
            ORDER BY n.part, n.xid, n.seq
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM front), (SELECT count(*) FROM arriving) INTO seen, moved;
        any_moved := any_moved OR moved > 0;
        EXIT WHEN moved < wanted;
    END LOOP;
    RETURN any_moved;
END
$$;

-- Whether so many rows of one priority wait, behind others of their key or for room, that a group is not fed any more.
CREATE FUNCTION holdfast_is_full(reader bigint, wanted_lane bigint, most bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT (SELECT 1 FROM holdfast_row r WHERE r.group_id = reader AND r.lane = wanted_lane AND r.state = 'pending' AND NOT r.head
            ORDER BY r.seq LIMIT 1 OFFSET most - 1) IS NOT NULL
        OR (SELECT 1 FROM holdfast_row r WHERE r.group_id = reader AND r.lane = wanted_lane AND r.state = 'pending' AND r.head
            ORDER BY r.due_at, r.seq LIMIT 1 OFFSET most - 1) IS NOT NULL
$$;

-- The key whose head is claimable.
CREATE FUNCTION holdfast_order_key(ordering text, key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE ordering WHEN 'per_key' THEN coalesce('=' || key, '') WHEN 'fifo' THEN 'fifo' ELSE '' END
$$;

-- Copies the next messages of a lane into rows of a group that is fed, in the order of the lane, and moves its cursor: how many it came
-- past, and how many it copied. An arrival and the end of a key's head must not miss each other, so each key is locked; but who has a
-- lane waits for no key: it stops before the first message whose key is not to be had, and comes back. Of what was there before the
-- group it copies only as many as someone is hungry for, at its rate.
CREATE FUNCTION holdfast_feed(
    reader bigint, wanted_lane bigint, wanted bigint, moment bigint, new_alone boolean, hungry bigint, has_entered boolean,
    most_waiting bigint, given_now bigint, OUT seen bigint, OUT copied bigint
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mine holdfast_group;
    now_at holdfast_cursor;
    skipped uuid[];
    busy text[];
    room bigint;
BEGIN
    seen := 0;
    copied := 0;
    PERFORM 1 FROM holdfast_lane l WHERE l.group_id = reader AND l.lane = wanted_lane FOR UPDATE;
    IF holdfast_is_full(reader, wanted_lane, most_waiting) THEN
        RETURN;
    END IF;
    SELECT g.* INTO mine FROM holdfast_group g WHERE g.id = reader;
    SELECT array_agg(s.id) INTO skipped FROM holdfast_skip s JOIN holdfast_message m ON m.id = s.id WHERE s.group_id = reader;
    SELECT c.* INTO now_at FROM holdfast_cursor c
    WHERE c.group_id = reader AND c.lane = wanted_lane ORDER BY c.number DESC LIMIT 1;
    room := holdfast_past_room(now_at, hungry, has_entered, given_now);
    IF room = 0 THEN
        RETURN;
    END IF;
    wanted := coalesce(room, wanted);
    PERFORM 1 FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, 1);
    IF NOT FOUND THEN  -- The window is used up: the next one begins where it ended, and ends now.
        now_at.lo := now_at.hi;
        now_at.hi := pg_current_snapshot();
        now_at.xid := pg_snapshot_xmin(now_at.lo);
        now_at.seq := -1;
    END IF;
    SELECT array_agg(k.order_key) INTO busy
    FROM (SELECT DISTINCT holdfast_order_key(mine.fed, w.key) AS order_key
          FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, wanted) w
          WHERE holdfast_is_wanted(mine.wanted, skipped, w.topic, w.id)
          ORDER BY 1 OFFSET 0) AS k
    WHERE k.order_key <> '' AND NOT pg_try_advisory_xact_lock(hashtextextended(k.order_key, reader));
    SELECT count(*) INTO seen
    FROM (SELECT coalesce(bool_or(holdfast_order_key(mine.fed, w.key) = ANY (busy)
                                  AND holdfast_is_wanted(mine.wanted, skipped, w.topic, w.id)) OVER (ORDER BY w.place), false) AS stopped
          FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, wanted)
               WITH ORDINALITY AS w (lane, xid, seq, id, body, headers, key, correlation_id, reply_to, topic, expires_at,
                                     enqueued_at, place)) AS reached
    WHERE NOT reached.stopped;
    WITH arriving AS MATERIALIZED (
        SELECT w.*, holdfast_order_key(mine.fed, w.key) AS order_key
        FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, seen)
             WITH ORDINALITY AS w (lane, xid, seq, id, body, headers, key, correlation_id, reply_to, topic, expires_at,
                                   enqueued_at, place)
        WHERE holdfast_is_wanted(mine.wanted, skipped, w.topic, w.id)
    )
    INSERT INTO holdfast_row (group_id, id, lane, state, due_at, alone, order_key, head, body, headers, key, correlation_id, reply_to,
                              topic, expires_at, enqueued_at)
    SELECT reader, n.id, n.lane, 'pending', least(n.enqueued_at, moment), new_alone, n.order_key,
           n.order_key = ''
           OR row_number() OVER (PARTITION BY n.order_key ORDER BY n.place) = 1
              AND NOT EXISTS (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = reader AND b.order_key = n.order_key)
              AND NOT EXISTS (SELECT 1 FROM holdfast_row r
                              WHERE r.group_id = reader AND r.order_key = n.order_key AND r.order_key <> '' AND r.finished_at IS NULL),
           n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic, n.expires_at, n.enqueued_at
    FROM arriving n
    ORDER BY n.place;
    GET DIAGNOSTICS copied = ROW_COUNT;
    IF seen > 0 AND skipped IS NOT NULL THEN
        DELETE FROM holdfast_skip s
        USING holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, seen) w
        WHERE s.group_id = reader AND s.id = w.id;
    END IF;
    IF seen > 0 THEN
        SELECT w.xid, w.seq INTO now_at.xid, now_at.seq
        FROM holdfast_read_window(wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq, seen) w OFFSET seen - 1;
    END IF;
    IF room IS NOT NULL THEN
        now_at := holdfast_leave_past(now_at, copied, given_now);
    END IF;
    INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
    VALUES (reader, wanted_lane, now_at.lo, now_at.hi, now_at.xid, now_at.seq);
    DELETE FROM holdfast_cursor c WHERE c.group_id = reader AND c.lane = wanted_lane AND c.number = now_at.number;
END
$$;

-- One claim: for each group in turn, priority by priority, due rows and then the lane, until the limit is reached.
-- With `alone_first` it begins with a row that must be alone, so that those are not passed by for ever; who holds one
-- already takes no other (`may_be_alone`). A group that is dead, has lost something, or was canceled comes back as silent. A run limit of 1 says that a message has one attempt only.
-- With `shares`, every place whose share is above 0 is asked for as many; the others then fill up what is left of the limit. A group that
-- had less than it was asked for is not asked again.
CREATE FUNCTION holdfast_claim(
    readers bigint[], first_lanes bigint[], terms bigint[], run_limits bigint[], shares bigint[], wanted bigint, new_worker text,
    alone_first boolean, may_be_alone boolean, most_waiting bigint, given_now bigint
) RETURNS SETOF holdfast_grant LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    moment bigint := holdfast_now(given_now);
    taken bigint := 0;
    before bigint;
    bound bigint;
    most bigint;
    part bigint;
    mine holdfast_limit;
    is_paused boolean;
    is_limited boolean;
    is_keyed boolean;
    is_over boolean := false;
    short bigint[] := '{}';
    entered record;
    place_in record;
    found_row record;
    eaten record;
    copied bigint;
    passed bigint;
    opened holdfast_run;
BEGIN
    FOR place IN 1..CASE WHEN alone_first THEN cardinality(readers) ELSE 0 END LOOP
        SELECT g.paused OR g.dead_at IS NOT NULL OR g.missing > 0, g.limited > 0 INTO is_paused, is_limited
        FROM holdfast_group g WHERE g.id = readers[place];
        CONTINUE WHEN is_paused;
        is_keyed := false;
        IF is_limited THEN
            SELECT * INTO entered FROM holdfast_enter(readers, readers[place], wanted, given_now);
            CONTINUE WHEN entered.free < 1;
            mine := entered.mine;
            moment := entered.moment;
            is_keyed := mine.key_concurrency IS NOT NULL OR mine.key_rate_count IS NOT NULL;
        END IF;
        IF is_keyed THEN
            SELECT * INTO found_row
            FROM holdfast_claim_keyed(mine, NULL, 1, moment, moment + terms[place], new_worker, true);
        ELSE
            SELECT * INTO found_row
            FROM holdfast_claim_rows(readers[place], NULL, 1, moment, moment + terms[place], new_worker, true);
        END IF;
        CONTINUE WHEN NOT FOUND;
        RETURN NEXT found_row.granted;
        PERFORM holdfast_count(readers[place], moment, 0, 0, 0, 1, 0, 0, 0, 0, 0);
        IF is_limited THEN
            PERFORM holdfast_note_start(readers[place], '', mine.rate_per, 1, moment);
            PERFORM holdfast_note_start(readers[place], '=' || (found_row.granted).key, mine.key_rate_per, 1, moment);
        END IF;
        RETURN;
    END LOOP;
    FOR place IN 1..cardinality(readers) LOOP
        EXIT WHEN taken >= wanted AND (shares IS NULL OR shares[place] = 0);
        CONTINUE WHEN readers[place] = ANY (short);
        before := taken;
        most := CASE WHEN shares[place] > 0 THEN taken + shares[place] ELSE wanted END;
        bound := most;
        is_limited := false;
        is_keyed := false;
        FOR place_in IN SELECT * FROM holdfast_look(readers[place], first_lanes[place], moment) LOOP
            IF place_in.limited > 0 AND NOT is_limited THEN
                is_limited := true;
                SELECT * INTO entered FROM holdfast_enter(readers, readers[place], most - taken, given_now);
                bound := taken + entered.free;
                mine := entered.mine;
                moment := entered.moment;
                is_keyed := mine.key_concurrency IS NOT NULL OR mine.key_rate_count IS NOT NULL;
            END IF;
            EXIT WHEN taken >= bound;
            IF is_keyed AND place_in.in_lane AND place_in.source IS NULL AND holdfast_leave_lane(
                   readers[place], first_lanes[place] + place_in.level, greatest(bound - taken, 200), moment, run_limits[place] = 1)
            THEN
                place_in.in_rows := true;
            END IF;
            copied := 0;
            passed := 0;
            LOOP  -- Once, unless it is a group that is fed as long as it stays hungry, and not too much for one turn.
                IF place_in.in_rows AND NOT is_keyed THEN
                    FOR found_row IN SELECT * FROM holdfast_claim_rows(readers[place], first_lanes[place] + place_in.level,
                                             bound - taken, moment, moment + terms[place], new_worker, may_be_alone AND taken = 0)
                    LOOP
                        taken := taken + 1;
                        RETURN NEXT found_row.granted;
                        is_over := found_row.alone;
                    END LOOP;
                ELSIF place_in.in_rows THEN
                    FOR found_row IN SELECT * FROM holdfast_claim_keyed(mine, first_lanes[place] + place_in.level, bound - taken,
                                             moment, moment + terms[place], new_worker, may_be_alone AND taken = 0)
                    LOOP
                        taken := taken + 1;
                        RETURN NEXT found_row.granted;
                        is_over := found_row.alone;
                        PERFORM holdfast_note_start(readers[place], '=' || (found_row.granted).key, mine.key_rate_per, 1, moment);
                    END LOOP;
                END IF;
                EXIT WHEN place_in.fed IS NULL OR NOT place_in.in_lane OR is_over OR taken >= bound OR copied >= 500 OR passed >= 10000;
                SELECT * INTO eaten FROM holdfast_feed(readers[place], first_lanes[place] + place_in.level, greatest(bound - taken, 200),
                                                       moment, run_limits[place] = 1, bound - taken, is_limited, most_waiting, given_now);
                EXIT WHEN eaten.seen = 0;
                copied := copied + eaten.copied;
                passed := passed + eaten.seen - eaten.copied;
                place_in.in_rows := true;
                moment := holdfast_now(given_now);  -- The wait for the lane must not eat up a lease.
            END LOOP;
            EXIT WHEN is_over OR taken >= bound;
            IF place_in.in_lane AND place_in.fed IS NULL THEN
                FOR opened IN SELECT * FROM holdfast_claim_lane(readers[place], first_lanes[place] + place_in.level,
                                                                least(bound - taken, run_limits[place]), terms[place], new_worker,
                                                                given_now, is_keyed, is_limited)
                LOOP
                    RETURN NEXT ROW(ARRAY[opened.group_id, opened.token, opened.until, opened.size, opened.lane], NULL, NULL, NULL, NULL,
                                    NULL, NULL, NULL, NULL, NULL)::holdfast_grant;
                    IF opened.settled IS NULL AND opened.after_xid >= pg_snapshot_xmax(opened.lo) THEN
                        RETURN QUERY
                            SELECT NULL::bigint[], m.id, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at,
                                   m.enqueued_at
                            FROM holdfast_read_fresh(opened.lane, opened.hi, opened.after_xid, opened.after_seq, opened.size) m;
                    ELSE
                        RETURN QUERY
                            SELECT ARRAY[w.place - 1], w.id, w.body, w.headers, w.key, w.correlation_id, w.reply_to, w.topic,
                                   w.expires_at, w.enqueued_at
                            FROM holdfast_read_window(opened.lane, opened.lo, opened.hi, opened.after_xid, opened.after_seq, opened.size)
                                 WITH ORDINALITY AS w (lane, xid, seq, id, body, headers, key, correlation_id, reply_to, topic,
                                                       expires_at, enqueued_at, place)
                            WHERE opened.settled IS NULL OR get_bit(opened.settled, w.place - 1) = 0;
                    END IF;
                    GET DIAGNOSTICS part = ROW_COUNT;
                    taken := taken + part;
                END LOOP;
            END IF;
        END LOOP;
        IF NOT FOUND AND EXISTS (SELECT 1 FROM holdfast_group g WHERE g.id = readers[place] AND (g.canceled_at IS NOT NULL
                                   OR NOT g.paused AND g.ended_at IS NULL AND (g.dead_at IS NOT NULL OR g.missing > 0)))
        THEN
            RETURN NEXT ROW(ARRAY[readers[place]], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::holdfast_grant;
        END IF;
        IF taken > before THEN
            PERFORM holdfast_count(readers[place], moment, 0, 0, 0, taken - before, 0, 0, 0, 0, 0);
            IF is_limited THEN
                PERFORM holdfast_note_start(readers[place], '', mine.rate_per, taken - before, holdfast_now(given_now));
            END IF;
        END IF;
        EXIT WHEN is_over;
        IF taken < most THEN
            short := short || readers[place];
        END IF;
    END LOOP;
END
$$;
