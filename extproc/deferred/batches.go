package deferred

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"bardo.money/gateway/extproc/batch"
	"bardo.money/gateway/policy"
)

// The states of a batch.
const (
	gathering  = "gathering" // requests are being added
	submitting = "handing"   // it may have been submitted
	running    = "running"   // submitted
	ended      = "ended"     // its results were read; the provider's copies are to be deleted
)

// Limits of one batch.
const (
	mostItems = 1000
	mostBytes = 16 << 20
)

// callTime is the timeout of one batch API call; results may be long.
const callTime = 5 * time.Minute

// batchRow is a row of the batch table.
type batchRow struct {
	id, state, key, path, model, beta, input, remote string
	provider                                         policy.ProviderID
	at, submitted                                    time.Time
	tries                                            int
	cancelled                                        bool
}

const selectBatch = `SELECT id, state, provider, key, path, model, beta, at, tries, input, remote, submitted, cancelled FROM batch `

func scanBatch(row scanner) (b batchRow, err error) {
	var at, submitted int64
	err = row.Scan(&b.id, &b.state, &b.provider, &b.key, &b.path, &b.model, &b.beta, &at, &b.tries, &b.input, &b.remote, &submitted, &b.cancelled)
	b.at, b.submitted = time.UnixMicro(at), time.UnixMicro(submitted)
	return b, err
}

// group adds a planned request to a batch of its kind, which is created if none is gathering. The error is ErrCancelled for a request that was
// cancelled meanwhile.
func (s *Store) group(ctx context.Context, r *Request, p *Planned) error {
	return s.atomically(ctx, func(tx *sql.Tx) error {
		now := s.now().UnixMicro()
		var id string
		err := tx.QueryRowContext(ctx, `SELECT id FROM batch WHERE state = ? AND provider = ? AND key = ? AND path = ? AND model = ? AND beta = ? AND input = '' AND size + ? <= ?
AND (SELECT count(*) FROM item WHERE batch = id) < ? ORDER BY at DESC LIMIT 1`,
			gathering, p.Provider, p.Key, p.Path, p.Model, p.Beta, len(p.Body), mostBytes, mostItems).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			id = "bardo_" + newName()
			_, err = tx.ExecContext(ctx, `INSERT INTO batch (id, state, provider, key, path, model, beta, at, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				id, gathering, p.Provider, p.Key, p.Path, p.Model, p.Beta, now, now)
		}
		if err != nil {
			return err
		}
		for _, c := range []struct {
			query string
			args  []any
		}{
			{`UPDATE batch SET size = size + ? WHERE id = ?`, []any{len(p.Body), id}},
			{`INSERT INTO item (request, batch, digest, masked, body) VALUES (?, ?, ?, ?, ?)`, []any{r.ID, id, p.Digest, p.Masked, s.seal.Seal("item "+r.ID, p.Body)}},
		} {
			if _, err := tx.ExecContext(ctx, c.query, c.args...); err != nil {
				return err
			}
		}
		done, err := tx.ExecContext(ctx, `UPDATE request SET state = ?, batch = ? WHERE id = ? AND cancelled = 0`, grouped, id, r.ID)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrCancelled)
		}
		return nil
	})
}

// items returns the requests of a batch for submission, in a fixed order.
func (s *Store) items(ctx context.Context, id string) ([]batch.Item, error) {
	scan := func(row scanner) (it batch.Item, err error) {
		var body []byte
		if err := row.Scan(&it.ID, &body); err != nil {
			return it, err
		}
		it.Body, err = s.seal.Open("item "+it.ID, body)
		return it, err
	}
	return readAll(ctx, s, scan, `SELECT request, body FROM item WHERE batch = ? ORDER BY request`, id)
}

// setSubmitting records that a batch with the given number of requests is about to be submitted. ok is false, and nothing is written, if one of them was
// cancelled meanwhile.
func (s *Store) setSubmitting(ctx context.Context, b *batchRow, requests int, due time.Time) (ok bool, err error) {
	err = s.atomically(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		var left int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM item WHERE batch = ?`, b.id).Scan(&left); err != nil || left != requests {
			return err
		}
		ok = true
		_, err := tx.ExecContext(ctx, `UPDATE batch SET state = ?, due = ?, input = ?, submitted = ? WHERE id = ?`, submitting, due.UnixMicro(), b.input, b.submitted.UnixMicro(), b.id)
		return err
	})
	return ok && err == nil, err
}

// setBatch stores the next state of a batch.
func (s *Store) setBatch(ctx context.Context, b *batchRow, due time.Time) error {
	_, err := s.exec(context.WithoutCancel(ctx), `UPDATE batch SET state = ?, due = ?, tries = ?, input = ?, remote = ?, submitted = ?, cancelled = ? WHERE id = ?`,
		b.state, due.UnixMicro(), b.tries, b.input, b.remote, b.submitted.UnixMicro(), b.cancelled, b.id)
	return err
}

// stepBatches does the due step of each batch.
func (w *worker) stepBatches(ctx context.Context) error {
	all, err := readAll(ctx, w.st, scanBatch, selectBatch+`WHERE due <= ? ORDER BY due LIMIT ?`, w.Now().UnixMicro(), maxPerRound)
	for i := range all {
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, w.stepBatch(ctx, &all[i]))
	}
	return err
}

func (w *worker) stepBatch(ctx context.Context, b *batchRow) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	t, ok := w.Runner.Target(b.provider, b.key)
	switch {
	case !ok && b.state == ended:
		return w.remove(ctx, b)
	case !ok: // its key was removed: it cannot be queried
		return w.abandon(ctx, b, w.Now())
	}
	switch b.state {
	case gathering:
		return w.submit(ctx, &t, b)
	case submitting:
		return w.lookFor(ctx, &t, b)
	case running:
		return w.poll(ctx, &t, b)
	}
	return w.deleteRemote(ctx, &t, b)
}

// submit submits a batch that has gathered long enough. The intention is stored first.
func (w *worker) submit(ctx context.Context, t *batch.Target, b *batchRow) error {
	items, err := w.st.items(ctx, b.id)
	if err != nil {
		return err
	}
	switch {
	case len(items) == 0: // all were cancelled
		return w.abandon(ctx, b, w.Now())
	case strings.HasPrefix(b.input, outdated):
		return w.rewrite(ctx, t, b)
	}
	if until := b.at.Add(w.o.Gather); len(items) < mostItems && w.Now().Before(until) && b.input == "" {
		return w.st.setBatch(ctx, b, until)
	}
	o := &batch.Order{Tag: b.id, Path: b.path, Beta: b.beta, Items: items, Input: b.input}
	if o.Input == "" {
		if o.Input, err = t.Upload(ctx, o); err != nil {
			return w.failed(ctx, b, err)
		}
		if b.input = o.Input; b.input == "" {
			b.input = nothing // no more requests are added
		}
	}
	b.submitted = w.Now()
	ok, err := w.st.setSubmitting(ctx, b, len(items), w.Now().Add(w.o.Poll))
	switch {
	case err != nil:
		return err
	case !ok:
		return w.rewrite(ctx, t, b)
	}
	b.state = submitting
	made, err := t.Submit(ctx, o)
	if err != nil {
		return w.failed(ctx, b, err)
	}
	return w.setRunning(ctx, b, made.ID)
}

// Values of a batch's input, besides the id of an uploaded file.
const (
	nothing  = "-" // not uploaded yet, and no more requests are added
	outdated = "!" // before an id: a request in it was cancelled since
)

// uploaded returns the id of the file that was uploaded for a batch; "" for none.
func (b *batchRow) uploaded() string {
	id := strings.TrimPrefix(b.input, outdated)
	if id == nothing {
		return ""
	}
	return id
}

// rewrite rewrites a batch without the requests that were cancelled since it was uploaded.
func (w *worker) rewrite(ctx context.Context, t *batch.Target, b *batchRow) error {
	w.deleteUpload(ctx, t, b)
	b.input = ""
	return w.st.setBatch(ctx, b, w.Now())
}

// deleteUpload deletes the file of a batch that was not submitted: its provider would store it for weeks.
func (w *worker) deleteUpload(ctx context.Context, t *batch.Target, b *batchRow) {
	id := b.uploaded()
	if id == "" {
		return
	}
	if err := t.Forget(ctx, &batch.Remote{Files: []string{id}}); err != nil {
		w.Log.Warn("what was uploaded for a batch was not deleted", "provider", string(b.provider), "batch", b.id, "error", err)
	}
}

// setRunning records that the provider has a batch.
func (w *worker) setRunning(ctx context.Context, b *batchRow, id string) error {
	b.state, b.remote, b.tries = running, id, 0
	return w.st.setBatch(ctx, b, w.Now().Add(w.o.Poll))
}

// failed handles the error of a submission. A batch that may have been accepted is looked up first.
func (w *worker) failed(ctx context.Context, b *batchRow, cause error) error {
	w.Log.Warn("a batch was not handed in", "provider", string(b.provider), "batch", b.id, "error", cause)
	b.tries++
	switch batch.OutcomeOf(cause) {
	case batch.Never:
		return w.abandon(ctx, b, w.Now())
	case batch.Later:
		b.state = gathering
	case batch.Unknown:
	}
	return w.st.setBatch(ctx, b, w.Now().Add(min(pause(b.tries), w.o.Poll)))
}

// settle is the number of polls within which a submission that broke off must appear in the provider's list.
const settle = 3

// lookFor looks up a batch that may have been submitted. If it does not appear, it is submitted again after a while.
func (w *worker) lookFor(ctx context.Context, t *batch.Target, b *batchRow) error {
	items, err := w.st.items(ctx, b.id)
	if err != nil {
		return err
	}
	found, err := t.Find(ctx, &batch.Order{Tag: b.id, Items: items}, b.submitted)
	if err != nil {
		b.tries++
		w.Log.Warn("a provider's batches cannot be listed", "provider", string(b.provider), "batch", b.id, "error", err)
		return w.st.setBatch(ctx, b, w.Now().Add(min(pause(b.tries), w.o.Poll)))
	}
	for i := range found {
		known, err := readAll(ctx, w.st, scanText, `SELECT id FROM batch WHERE remote = ? AND id <> ?`, found[i].ID, b.id)
		if err != nil {
			return err
		}
		if len(known) == 0 {
			return w.setRunning(ctx, b, found[i].ID)
		}
	}
	if w.Now().Sub(b.submitted) >= settle*w.o.Poll {
		b.state = gathering
		return w.st.setBatch(ctx, b, w.Now())
	}
	return w.st.setBatch(ctx, b, w.Now().Add(w.o.Poll))
}

// poll polls a batch, and reads its results once it has ended.
func (w *worker) poll(ctx context.Context, t *batch.Target, b *batchRow) error {
	r, err := t.Look(ctx, b.remote)
	switch {
	case err != nil && batch.OutcomeOf(err) == batch.Never:
		w.Log.Warn("a batch is not there any more", "provider", string(b.provider), "batch", b.id, "error", err)
		return w.abandon(ctx, b, w.Now())
	case err != nil:
		b.tries++
		w.Log.Warn("a batch cannot be looked at", "provider", string(b.provider), "batch", b.id, "error", err)
		return w.st.setBatch(ctx, b, w.Now().Add(min(pause(b.tries), w.o.Poll)))
	case r.State == batch.Running:
		b.tries = 0
		return w.st.setBatch(ctx, b, w.Now().Add(w.o.Poll))
	case r.State == batch.Ended:
		err := t.Results(ctx, b.remote, func(res *batch.Result) error { return w.st.storeResult(ctx, b, res) })
		if err != nil {
			b.tries++
			w.Log.Warn("the results of a batch were not read", "provider", string(b.provider), "batch", b.id, "error", err)
			return w.st.setBatch(ctx, b, w.Now().Add(min(pause(b.tries), w.o.Poll)))
		}
	}
	return w.abandon(ctx, b, w.Now())
}

// storeResult stores the result of a request, which is answered next. Results of unknown requests are ignored, and the result of a request that was not
// processed does not count.
func (s *Store) storeResult(ctx context.Context, b *batchRow, r *batch.Result) error {
	if !r.Answered {
		return nil
	}
	return s.atomically(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		c := Call{Batch: true, Model: b.model, Status: r.Status, Body: r.Body}
		err := tx.QueryRowContext(ctx, `DELETE FROM item WHERE request = ? AND batch = ? RETURNING digest, masked`, r.ID, b.id).Scan(&c.Digest, &c.Masked)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertCall, s.callRow(r.ID, &c)...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE request SET state = ?, due = ?, tries = 0 WHERE id = ? AND state = ?`, fetched, s.now().UnixMicro(), r.ID, grouped)
		return err
	})
}

// abandon ends a batch: its requests without a result are called directly.
func (w *worker) abandon(ctx context.Context, b *batchRow, due time.Time) error {
	b.state, b.tries = ended, 0
	return w.st.atomically(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		for _, c := range []struct {
			query string
			args  []any
		}{
			{`UPDATE request SET state = ?, due = ?, batch = NULL, tries = 0 WHERE batch = ? AND state = ?`, []any{direct, due.UnixMicro(), b.id, grouped}},
			{`DELETE FROM item WHERE batch = ?`, []any{b.id}},
			{`UPDATE batch SET state = ?, due = ?, tries = 0 WHERE id = ?`, []any{ended, due.UnixMicro(), b.id}},
		} {
			if _, err := tx.ExecContext(ctx, c.query, c.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxForget is the maximum number of attempts to delete the provider's copies.
const maxForget = 5

// deleteRemote deletes the provider's copies of an ended batch, and the batch.
func (w *worker) deleteRemote(ctx context.Context, t *batch.Target, b *batchRow) error {
	if b.remote == "" {
		w.deleteUpload(ctx, t, b)
		return w.remove(ctx, b)
	}
	r, err := t.Look(ctx, b.remote)
	if err == nil && r.State == batch.Running { // it is being cancelled
		return w.st.setBatch(ctx, b, w.Now().Add(w.o.Poll))
	}
	if err == nil {
		err = t.Forget(ctx, &r)
	}
	if b.tries++; err != nil && b.tries < maxForget {
		return w.st.setBatch(ctx, b, w.Now().Add(pause(b.tries)))
	}
	return w.remove(ctx, b)
}

func (w *worker) remove(ctx context.Context, b *batchRow) error {
	_, err := w.st.exec(context.WithoutCancel(ctx), `DELETE FROM batch WHERE id = ?`, b.id)
	return err
}

// expireBatches removes requests from batches that take too long: a batch is cancelled once the first of its requests reaches its limit, which leaves
// the provider half of the remaining time to return its results. A batch without waiting requests is cancelled as well.
func (w *worker) expireBatches(ctx context.Context) error {
	all, err := readAll(ctx, w.st, scanRequest, selectRequest+`WHERE state = ?`, grouped)
	if err != nil {
		return err
	}
	wanted, late := map[string]bool{}, map[string]bool{}
	for i := range all {
		r := &all[i]
		waitsUntil := w.waitsUntil(r)
		if w.Now().After(waitsUntil.Add(r.Deadline.Sub(waitsUntil) / 2)) {
			err = errors.Join(err, w.removeFromBatch(ctx, r))
			continue
		}
		wanted[r.batch] = wanted[r.batch] || !r.Cancelled
		late[r.batch] = late[r.batch] || w.Now().After(waitsUntil)
	}
	for id := range wanted {
		if late[id] || !wanted[id] {
			err = errors.Join(err, w.cancelBatch(ctx, id))
		}
	}
	return err
}

// removeFromBatch makes a request be called directly. A later result of its batch is not used.
func (w *worker) removeFromBatch(ctx context.Context, r *Request) error {
	if _, ok := w.claim(ctx, w.st, r); !ok {
		return nil
	}
	defer w.drop(r)
	return w.st.atomically(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM item WHERE request = ?`, r.ID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE request SET state = ?, due = ?, batch = NULL, tries = 0 WHERE id = ? AND state = ?`, direct, w.Now().UnixMicro(), r.ID, grouped)
		return err
	})
}

// cancelBatch cancels a batch at the provider; one that was not submitted is abandoned.
func (w *worker) cancelBatch(ctx context.Context, id string) error {
	b, err := scanBatch(w.st.db.QueryRowContext(ctx, selectBatch+`WHERE id = ?`, id))
	switch {
	case err != nil || b.cancelled || b.state == submitting || b.state == ended:
		return err
	case b.state == gathering:
		return w.abandon(ctx, &b, w.Now())
	}
	t, ok := w.Runner.Target(b.provider, b.key)
	if !ok {
		return w.abandon(ctx, &b, w.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := t.Cancel(ctx, b.remote); err != nil {
		w.Log.Warn("a batch was not cancelled", "provider", string(b.provider), "batch", b.id, "error", err)
	}
	b.cancelled = true
	return w.st.setBatch(ctx, &b, w.Now().Add(w.o.Poll/4))
}
