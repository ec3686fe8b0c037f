package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// The endpoints by which a caller sees and deletes what the cache holds of its own. No content is shown.

// cacheReply is GET /v1/cache.
type cacheReply struct {
	Object  string       `json:"object"`
	Entries int          `json:"entries"`
	Bytes   int64        `json:"bytes"`
	Hits    int64        `json:"hits"`
	Misses  int64        `json:"misses"`
	Saved   policy.Micro `json:"saved_usd"`
	Data    []cacheEntry `json:"data"`
}

// cacheEntry is one stored answer.
type cacheEntry struct {
	ID           string            `json:"id"`
	Model        policy.ModelID    `json:"model"`
	Provider     policy.ProviderID `json:"provider"`
	CreatedAt    time.Time         `json:"created_at"`
	ExpiresAt    time.Time         `json:"expires_at"`
	Stale        bool              `json:"stale"` // past its time: it only stands in for providers that fail
	Bytes        int64             `json:"bytes"`
	Hits         int64             `json:"hits"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
}

// mostListed bounds a listing; the counts are of all entries.
const mostListed = 1000

// Cache is GET /v1/cache.
func (s *Server) Cache(_ context.Context, c *Caller) (stream.Reply, error) {
	l := s.Answers.List(c.Principal.Account)
	out := cacheReply{
		Object: "list", Entries: len(l.Entries), Bytes: l.Bytes, Hits: l.Hits, Misses: l.Misses, Saved: l.Saved,
		Data: make([]cacheEntry, 0, min(len(l.Entries), mostListed)),
	}
	now := time.Now()
	for _, e := range l.Entries[:min(len(l.Entries), mostListed)] {
		out.Data = append(out.Data, cacheEntry{
			ID: e.Key.ID(), Model: e.By.Model, Provider: e.By.Provider, CreatedAt: e.Created.UTC(), ExpiresAt: e.Expires.UTC(),
			Stale: !now.Before(e.Expires), Bytes: e.Size(), Hits: e.Hits(), InputTokens: e.Usage.TotalInput(), OutputTokens: e.Usage.Output,
		})
	}
	body, err := json.Marshal(out)
	return c.Head.JSON(body), err
}

// ClearCache deletes all of the caller's entries, those of ?model=, or the one that the path names.
func (s *Server) ClearCache(_ context.Context, c *Caller) (stream.Reply, error) {
	if err := auth.MayGenerate(c.Principal); err != nil { // a key that may only read
		return stream.Reply{}, err
	}
	q, err := url.ParseQuery(c.Head.Query)
	if err != nil {
		return stream.Reply{}, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	id, one := strings.CutPrefix(c.Head.Path, "/v1/cache/")
	model := policy.ModelID(q.Get("model"))
	if len(q) > 0 && (one || model == "" || len(q) > 1 || len(q["model"]) > 1) { // a slip must not delete everything
		return stream.Reply{}, fault.Newf(fault.InvalidRequest, "the query %q, expected model=MODEL or none", fault.Clip(c.Head.Query))
	}
	n := s.Answers.Remove(c.Principal.Account, func(e *cache.Entry) bool {
		return (!one || e.Key.ID() == id) && (model == "" || e.By.Model == model)
	})
	if one && n == 0 {
		return stream.Reply{}, fault.Newf(fault.NotFound, "there is no entry %q of this key", fault.Clip(id))
	}
	body, err := json.Marshal(struct {
		Object  string `json:"object"`
		Deleted int    `json:"deleted"`
	}{"cache.deleted", n})
	return c.Head.JSON(body), err
}
