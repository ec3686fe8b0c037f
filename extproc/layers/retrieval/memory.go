package retrieval

import (
	"cmp"
	"context"
	"errors"

	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/models"
)

// Memory finds documents that an agent has stored in its session.
type Memory struct {
	*memory.Memory

	MinScore float64
}

var _ Finder = Memory{}

// Find implements Finder.
func (m Memory) Find(ctx context.Context, q *Question) ([]Result, error) {
	found, err := m.Search(ctx, q.Account, q.Session, q.Text, q.MaxResults, m.MinScore)
	switch {
	case errors.Is(err, models.ErrOff):
		return nil, &FailedError{"no_model"}
	case errors.Is(err, models.ErrBusy):
		return nil, &FailedError{"busy"}
	case err != nil:
		return nil, err
	}
	out := make([]Result, len(found))
	for i := range found {
		f := &found[i]
		out[i] = Result{ID: f.ID, Source: cmp.Or(f.Source, "memory/"+f.Key), Title: cmp.Or(f.Title, f.Key), Text: f.Text, Score: f.Score}
	}
	return out, nil
}
