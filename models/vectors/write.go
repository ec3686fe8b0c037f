package vectors

import (
	"context"
	"time"
)

// Pauses between connection attempts, and the number of written rows after which the store is pruned.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	pruneAfter = 1000
)

// Gateways write the same rows concurrently: rows are locked in the order of their ids, or skipped if they are locked.
const (
	insertRows = `INSERT INTO vectors (id, vector) SELECT DISTINCT ON (id) id, vector FROM unnest($1::bytea[], $2::bytea[]) AS made (id, vector) ORDER BY id
		ON CONFLICT (id) DO UPDATE SET vector = EXCLUDED.vector, used = current_date`
	touchRows = `UPDATE vectors SET used = current_date WHERE id IN (SELECT id FROM vectors WHERE id = ANY($1) AND used < current_date ORDER BY id FOR UPDATE SKIP LOCKED)`
	pruneRows = `DELETE FROM vectors WHERE id IN (SELECT id FROM vectors ORDER BY used DESC, id OFFSET $1 FOR UPDATE SKIP LOCKED)`
)

// keep connects, writes pending vectors, and reconnects after each failure, until the store is closed.
func (s *Store) keep() {
	for s.connect() && s.serve() {
		s.o.Log.Warn("the store of vectors is away: they are made again", "error", s.Problem())
	}
}

// connect returns when the database answers in time; false if the store was closed first.
func (s *Store) connect() bool {
	for pause, first := firstPause, true; ; pause, first = min(2*pause, longPause), false {
		err := s.prepare()
		if err == nil {
			s.slow.Store(0)
			s.down.Store(nil)
			s.o.Log.Info("the store of vectors answers")
			return true
		}
		if first && s.Problem() == errStarting { //nolint:errorlint // that very value
			s.o.Log.Warn("the store of vectors does not answer: vectors are made again", "error", err)
		}
		select {
		case <-time.After(pause):
		case <-s.closing:
			return false
		}
	}
}

// tables creates missing tables. The lock is for gateways that start concurrently.
var tables = [...]string{
	`SET LOCAL idle_in_transaction_session_timeout = '10s'`, // in case the gateway dies
	`SELECT pg_advisory_xact_lock(108170552602486)`,         // an arbitrary number
	`DO $$ BEGIN IF current_schema() IS NULL THEN
		EXECUTE format('CREATE SCHEMA %I', trim(split_part(current_setting('search_path'), ',', 1), ' "')); END IF; END $$`,
	`CREATE TABLE IF NOT EXISTS vectors (id bytea PRIMARY KEY, vector bytea NOT NULL, used date NOT NULL DEFAULT current_date)`,
	`CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used)`,
}

// prepare creates the table, prunes it, and tries a lookup within its timeout.
func (s *Store) prepare() error {
	ctx, cancel := context.WithTimeout(context.Background(), workTime)
	defer cancel()
	tx, err := s.o.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit there is nothing to roll back
	for _, statement := range tables {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := s.prune(); err != nil {
		return err
	}
	quick, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.o.DB.PingContext(quick)
}

// serve writes pending vectors until the database fails; false if the store was closed.
func (s *Store) serve() bool {
	written := 0
	for {
		select {
		case r := <-s.queue:
			n, err := s.write(r)
			if written += n; err == nil && written >= pruneAfter {
				written, err = 0, s.prune()
			}
			if err != nil {
				s.fail(err)
				<-s.failing
				return true
			}
		case <-s.failing:
			return true
		case <-s.closing:
			for len(s.queue) > 0 && s.Problem() == nil {
				if _, err := s.write(<-s.queue); err != nil {
					return false
				}
			}
			return false
		}
	}
}

// write writes a row and up to maxBatch other pending ones. n is how many were given.
func (s *Store) write(first row) (n int, err error) {
	var ids, sealed, used [][]byte
	for r := first; ; r = <-s.queue {
		if r.sealed == nil {
			used = append(used, r.id)
		} else {
			ids, sealed = append(ids, r.id), append(sealed, r.sealed)
		}
		if n++; n == maxBatch || len(s.queue) == 0 {
			break
		}
	}
	if len(ids) > 0 {
		err = s.exec(insertRows, ids, sealed)
	}
	if err == nil && len(used) > 0 {
		err = s.exec(touchRows, used)
	}
	return n, err
}

// prune deletes the least recently used rows beyond the maximum.
func (s *Store) prune() error {
	return s.exec(pruneRows, s.o.Rows)
}

func (s *Store) exec(statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), workTime)
	defer cancel()
	_, err := s.o.DB.ExecContext(ctx, statement, args...)
	return err
}
