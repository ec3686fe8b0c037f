package adminapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Cache is a gateway's stored answers, and the keys that may have some.
type Cache struct {
	Answers *cache.Store
	Keys    func(context.Context) ([]policy.Account, error)
}

// The names of tenants of the cache that are not keys.
const (
	anonymous = "anonymous"
	freePool  = "free-pool" // shared by all keys of the free plan
)

// tenant returns the tenant that a name of the API stands for.
func tenant(name string) policy.Account {
	switch name {
	case anonymous:
		return ""
	case freePool:
		return policy.FreePool
	}
	return policy.Account(name)
}

// tenantName is the inverse of tenant.
func tenantName(t policy.Account) string {
	switch t {
	case "":
		return anonymous
	case policy.FreePool:
		return freePool
	}
	return string(t)
}

// cacheBody is the answer of GET /cache.
type cacheBody struct {
	Entries int64        `json:"entries"` // in this gateway's memory
	Bytes   int64        `json:"bytes"`
	Data    []cacheShare `json:"data"` // tenants with entries or counters
}

// cacheShare is one tenant's share of the cache.
type cacheShare struct {
	Key     string       `json:"key"`   // a key's id, anonymous or free-pool
	Epoch   int          `json:"epoch"` // counts flushes, from 1
	Entries int          `json:"entries"`
	Bytes   int64        `json:"bytes"`
	Hits    int64        `json:"hits"`
	Misses  int64        `json:"misses"`
	Saved   policy.Micro `json:"saved_usd"`
}

// cacheListing is the answer of GET /cache/{key}: entries without their content.
type cacheListing struct {
	cacheShare

	Data []cacheEntry `json:"data"` // most recently used first; at most cache.MaxListed
}

type cacheEntry struct {
	ID       string            `json:"id"`
	Model    policy.ModelID    `json:"model"`
	Provider policy.ProviderID `json:"provider"`
	Created  time.Time         `json:"created_at"`
	Expires  time.Time         `json:"expires_at"`
	Bytes    int64             `json:"bytes"`
	Hits     int64             `json:"hits"`
}

// deletion is the number of entries deleted, or, in a dry run, that would be.
type deletion struct {
	Deleted int  `json:"deleted"`
	DryRun  bool `json:"dry_run"`
	Epoch   int  `json:"epoch,omitempty"` // the new epoch, of a single key
}

// unavailable is the fault of a store that does not answer.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Unavailable, "the store of answers that the gateways share does not answer: try again", err)
}

// tenants returns all possible tenants.
func (c *Cache) tenants(ctx context.Context) ([]policy.Account, error) {
	keys, err := c.Keys(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Answers.Tenants(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	all = append(all, append(keys, "", policy.FreePool)...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

func share(t policy.Account, l *cache.Listing) cacheShare {
	return cacheShare{tenantName(t), l.Epoch, l.Count, l.Bytes, l.Hits, l.Misses, l.Saved}
}

func (a *api) getCache(r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	all, err := a.Cache.tenants(r.Context())
	if err != nil {
		return reply{}, err
	}
	body := cacheBody{Data: []cacheShare{}}
	body.Entries, body.Bytes = a.Cache.Answers.Size()
	for _, t := range all {
		l, err := a.Cache.Answers.List(r.Context(), t)
		if err != nil {
			return reply{}, unavailable(err)
		}
		if l.Count > 0 || l.Epoch > 1 || l.Hits+l.Misses > 0 {
			body.Data = append(body.Data, share(t, &l))
		}
	}
	return reply{body: body}, nil
}

func (a *api) listCache(r *http.Request) (reply, error) {
	if _, err := query(r); err != nil {
		return reply{}, err
	}
	t, err := a.tenantOf(r)
	if err != nil {
		return reply{}, err
	}
	l, err := a.Cache.Answers.List(r.Context(), t)
	if err != nil {
		return reply{}, unavailable(err)
	}
	body := cacheListing{cacheShare: share(t, &l), Data: make([]cacheEntry, len(l.Entries))}
	for i, e := range l.Entries {
		body.Data[i] = cacheEntry{e.Key.ID(), e.By.Model, e.By.Provider, e.Created.UTC(), e.Expires.UTC(), e.Size(), e.Hits()}
	}
	return reply{body: body}, nil
}

// tenantOf returns the path's tenant. An unknown one is a fault: a typing error must not look like an empty cache.
func (a *api) tenantOf(r *http.Request) (policy.Account, error) {
	t := tenant(r.PathValue("key"))
	all, err := a.Cache.tenants(r.Context())
	if err == nil && !slices.Contains(all, t) {
		err = fault.New(fault.NotFound, "there is no such key", nil)
	}
	return t, err
}

// clearCache deletes a tenant's entries: all, those of a model, or the one in the path.
func (a *api) clearCache(r *http.Request) (reply, error) {
	q, err := query(r, "model", "dry_run")
	if err != nil {
		return reply{}, err
	}
	out := deletion{}
	if out.DryRun, err = boolParam(q, "dry_run"); err != nil {
		return reply{}, err
	}
	t, err := a.tenantOf(r)
	if err != nil {
		return reply{}, err
	}
	entry, model := r.PathValue("entry"), policy.ModelID(q.Get("model"))
	matches := func(e *cache.Entry) bool {
		return (entry == "" || e.Key.ID() == entry) && (model == "" || e.By.Model == model)
	}
	do := a.Cache.Answers.Remove
	if out.DryRun {
		do = a.Cache.Answers.Matching
	}
	if out.Deleted, err = do(r.Context(), t, matches); err != nil {
		return reply{}, unavailable(err)
	}
	if entry != "" && out.Deleted == 0 {
		return reply{}, fault.New(fault.NotFound, "there is no such entry", nil)
	}
	return reply{body: out, target: tenantName(t)}, nil
}

// flush is the body of both flush operations.
type flush struct {
	DryRun bool `json:"dry_run"`
}

func (a *api) flushCache(r *http.Request) (reply, error) {
	var f flush
	if err := readBody(r, &f); err != nil {
		return reply{}, err
	}
	t, err := a.tenantOf(r)
	if err != nil {
		return reply{}, err
	}
	out := deletion{DryRun: f.DryRun}
	out.Epoch, out.Deleted, err = a.flushTenant(r.Context(), t, f.DryRun)
	return reply{body: out, target: tenantName(t)}, err
}

// flushTenant begins a tenant's new epoch, or, in a dry run, counts what that would delete.
func (a *api) flushTenant(ctx context.Context, t policy.Account, dry bool) (epoch, deleted int, err error) {
	if dry {
		deleted, err = a.Cache.Answers.Matching(ctx, t, func(*cache.Entry) bool { return true })
		return 0, deleted, unavailable(err)
	}
	epoch, deleted, err = a.Cache.Answers.Flush(ctx, t)
	return epoch, deleted, unavailable(err)
}

func (a *api) flushAll(r *http.Request) (reply, error) {
	var f flush
	if err := readBody(r, &f); err != nil {
		return reply{}, err
	}
	all, err := a.Cache.tenants(r.Context())
	if err != nil {
		return reply{}, err
	}
	out := deletion{DryRun: f.DryRun}
	for _, t := range all {
		_, n, err := a.flushTenant(r.Context(), t, f.DryRun)
		if err != nil {
			return reply{}, err
		}
		out.Deleted += n
	}
	return reply{body: out, target: "all"}, nil
}
