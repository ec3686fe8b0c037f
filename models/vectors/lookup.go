package vectors

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/internal/guard"
)

var (
	errBusy = errors.New("too many lookups at once")
	errSlow = errors.New("several lookups in a row took too long")
)

// Lookup returns a model's stored vectors of texts, nil for unknown ones. It takes at most the lookup timeout, and no time while the database is down.
// More than maxTexts texts are not looked up.
func (s *Store) Lookup(ctx context.Context, tag string, texts []string) [][]float32 {
	out := make([][]float32, len(texts))
	if tag == "" || len(texts) == 0 || len(texts) > maxTexts {
		return out
	}
	if s.Problem() != nil {
		s.o.Looked(Bypassed, len(texts))
		return out
	}
	ids := make([][]byte, len(texts))
	for i, text := range texts {
		ids[i] = s.id(tag, text)
	}
	found, err := s.ask(ctx, ids)
	switch {
	case errors.Is(err, errBusy):
		s.o.Looked(Bypassed, len(texts))
		return out
	case err != nil:
		s.o.Looked(Failed, len(texts))
		return out
	}
	known := 0
	for i, id := range ids {
		if out[i] = s.open(id, found[string(id)]); out[i] != nil {
			known++
		}
	}
	s.o.Looked(Found, known)
	s.o.Looked(Absent, len(texts)-known)
	return out
}

// answer is the database's answer.
type answer struct {
	sealed map[string][]byte // by id
	err    error
}

// ask looks up ids. The statement is not cancelled at its timeout: that would close its connection.
func (s *Store) ask(ctx context.Context, ids [][]byte) (map[string][]byte, error) {
	select {
	case s.asking <- struct{}{}:
	default:
		return nil, errBusy
	}
	got := make(chan answer, 1)
	guard.Go(func() {
		defer func() { <-s.asking }()
		sealed, err := s.read(ids)
		if err != nil {
			s.fail(err)
		}
		got <- answer{sealed, err}
	})
	over := time.NewTimer(s.o.Timeout)
	defer over.Stop()
	select {
	case a := <-got:
		s.slow.Store(0)
		return a.sealed, a.err
	case <-over.C:
		if s.slow.Add(1) >= maxSlow {
			s.fail(errSlow)
		}
		return nil, context.DeadlineExceeded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads rows, and records their use.
func (s *Store) read(ids [][]byte) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), workTime)
	defer cancel()
	rows, err := s.o.DB.QueryContext(ctx, `SELECT id, vector, used < current_date FROM vectors WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := make(map[string][]byte, len(ids))
	for rows.Next() {
		var id, sealed []byte
		var old bool
		if err := rows.Scan(&id, &sealed, &old); err != nil {
			return nil, err
		}
		out[string(id)] = sealed
		if old {
			s.enqueue(row{id: id})
		}
	}
	return out, rows.Err()
}
