package api

import (
	"cmp"
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

// Endpoints by which a caller lists and deletes its own cache entries. No content is shown.

// cacheReply is GET /v1/cache.
type cacheReply struct {
	Object  string       `json:"object"`
	Epoch   int          `json:"epoch"` // number of deletions with epoch=new, plus 1
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
	Stale        bool              `json:"stale"`    // expired: only served when providers fail
	Semantic     bool              `json:"semantic"` // it may answer other questions with the same meaning
	Bytes        int64             `json:"bytes"`
	Hits         int64             `json:"hits"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
}

// Cache is GET /v1/cache.
func (s *Server) Cache(ctx context.Context, c *Caller) (stream.Reply, error) {
	l, err := s.Answers.List(ctx, c.Principal.Account)
	if err != nil {
		return stream.Reply{}, storeAway(err)
	}
	out := cacheReply{
		Object: "list", Epoch: l.Epoch, Entries: l.Count, Bytes: l.Bytes, Hits: l.Hits, Misses: l.Misses, Saved: l.Saved,
		Data: make([]cacheEntry, 0, len(l.Entries)),
	}
	now := time.Now()
	for _, e := range l.Entries {
		out.Data = append(out.Data, cacheEntry{
			ID: e.Key.ID(), Model: e.By.Model, Provider: e.By.Provider, CreatedAt: e.Created.UTC(), ExpiresAt: e.Expires.UTC(),
			Stale: !now.Before(e.Expires), Semantic: e.Semantic || s.Semantic.Has(c.Principal.Account, e.Key), Bytes: e.Size(), Hits: e.Hits(), InputTokens: e.Usage.TotalInput(), OutputTokens: e.Usage.Output,
		})
	}
	body, err := json.Marshal(out)
	return c.Head.JSON(body), err
}

// cleared is the answer to DELETE /v1/cache.
type cleared struct {
	Object  string `json:"object"`
	Deleted int    `json:"deleted"`
	DryRun  bool   `json:"dry_run,omitempty"` // nothing was deleted: the number that would have been
	Epoch   int    `json:"epoch,omitempty"`   // the new epoch
}

// ClearCache deletes all of the caller's entries, those of ?model=, the one that the path names, or the one that answered ?request=. With ?dry_run=true it
// only counts them. With ?epoch=new, answers to requests in flight are not stored either.
func (s *Server) ClearCache(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := auth.MayGenerate(c.Principal); err != nil { // a read-only key
		return stream.Reply{}, err
	}
	sel, err := readSelection(c.Head)
	if err != nil {
		return stream.Reply{}, err
	}
	out := cleared{Object: "cache.deleted", DryRun: sel.dry}
	wrongHit := false
	if sel.request != "" {
		if sel.id, wrongHit, err = s.servedEntry(ctx, c, sel.request); err != nil {
			return stream.Reply{}, err
		}
	}
	account := c.Principal.Account
	if pooled, err := s.isPooled(ctx, c, &sel); err != nil {
		return stream.Reply{}, storeAway(err)
	} else if pooled {
		account = policy.FreePool
	}
	switch {
	case sel.dry:
		out.Deleted, err = s.Answers.Matching(ctx, account, sel.has)
	case sel.epoch:
		out.Epoch, out.Deleted, err = s.Answers.Flush(ctx, account)
	case wrongHit:
		out.Deleted, err = s.removeWrongHit(ctx, account, &sel)
	default:
		out.Deleted, err = s.Answers.Remove(ctx, account, sel.has)
	}
	if err != nil {
		return stream.Reply{}, storeAway(err)
	}
	if sel.id != "" && out.Deleted == 0 {
		return stream.Reply{}, fault.Newf(fault.NotFound, "there is no entry %q of this key", fault.Clip(sel.id))
	}
	if wrongHit && !sel.dry && s.WrongHit != nil {
		s.WrongHit(sel.request)
	}
	body, err := json.Marshal(out)
	return c.Head.JSON(body), err
}

// isPooled reports whether the entry that answered a request of the caller belongs to the pool of the free plan's keys. It is the only shared entry
// that a caller may delete, by its own request's id.
func (s *Server) isPooled(ctx context.Context, c *Caller, sel *selection) (bool, error) {
	if sel.request == "" || c.Principal.Tier != policy.TierFree {
		return false, nil
	}
	if n, err := s.Answers.Matching(ctx, c.Principal.Account, sel.has); n > 0 || err != nil {
		return false, err
	}
	n, err := s.Answers.Matching(ctx, policy.FreePool, sel.has)
	return n > 0, err
}

// removeWrongHit deletes the entry that answered another question, and stops matching such questions.
func (s *Server) removeWrongHit(ctx context.Context, account policy.Account, sel *selection) (int, error) {
	var wrong []cache.Key
	_, err := s.Answers.Matching(ctx, account, func(e *cache.Entry) bool { // the store is not locked while another one is read
		if sel.has(e) {
			wrong = append(wrong, e.Key)
		}
		return false
	})
	for _, k := range wrong {
		err = cmp.Or(err, s.Semantic.Ban(ctx, account, k))
	}
	if err != nil {
		return 0, err
	}
	return s.Answers.Remove(ctx, account, sel.has)
}

// storeAway returns the fault for a shared store that does not respond.
func storeAway(err error) error {
	return fault.New(fault.Unavailable, "the store of answers that the gateways share does not answer: try again", err)
}

// selection selects cache entries.
type selection struct {
	id      string // one entry, by id
	request string // the entry that answered this request
	model   policy.ModelID
	epoch   bool
	dry     bool
}

func (s *selection) has(e *cache.Entry) bool {
	return (s.id == "" || e.Key.ID() == s.id) && (s.model == "" || e.By.Model == s.model)
}

// readSelection parses path and query. Anything unknown is refused, so that a typo cannot delete everything.
func readSelection(h *stream.Head) (s selection, err error) {
	q, err := url.ParseQuery(h.Query)
	if err != nil {
		return s, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	id, one := strings.CutPrefix(h.Path, "/v1/cache/")
	s = selection{id: id, request: q.Get("request"), model: policy.ModelID(q.Get("model")), epoch: q.Get("epoch") == "new", dry: q.Get("dry_run") == "true"}
	if !one {
		s.id = ""
	}
	read := count(s.request != "", s.model != "", s.epoch, s.dry)
	repeated := false
	for _, values := range q {
		repeated = repeated || len(values) > 1
	}
	if read != len(q) || repeated || count(one, s.request != "", s.model != "", s.epoch) > 1 {
		return s, fault.Newf(fault.InvalidRequest, "the query %q, expected model=MODEL, request=ID or epoch=new, or none of them, and dry_run=true", fault.Clip(h.Query))
	}
	return s, nil
}

func count(these ...bool) (n int) {
	for _, is := range these {
		if is {
			n++
		}
	}
	return n
}

// servedEntry returns the id of the entry that answered a request of the caller, or holds its answer, and whether it answered another question.
func (s *Server) servedEntry(ctx context.Context, c *Caller, request string) (id string, otherQuestion bool, err error) {
	r, err := s.record(ctx, c, request)
	if err != nil {
		return "", false, err
	}
	var had struct {
		Cache      string `json:"cache"`
		CacheEntry string `json:"cache_entry"`
	}
	if err := json.Unmarshal(r.Record, &had); err != nil {
		return "", false, err
	}
	if had.CacheEntry == "" {
		return "", false, fault.Newf(fault.NotFound, "the request %q has no entry in the cache", fault.Clip(request))
	}
	return had.CacheEntry, had.Cache == "semantic", nil
}
