package adminapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/ledger"
)

// operations returns all operations of the API.
func operations() []operation {
	get, post, patch, remove := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	ops := []operation{
		{get, "/openapi.json", "getDescription", ofProcess, (*api).description, nil},
		{get, "/status", "getStatus", ofProcess, (*api).status, nil},
		{get, "/keys", "listKeys", ofBooks, (*api).listKeys, nil},
		{post, "/keys", "createKey", ofBooks, (*api).createKey, nil},
		{get, "/keys/{id}", "getKey", ofBooks, (*api).getKey, nil},
		{patch, "/keys/{id}", "updateKey", ofBooks, (*api).updateKey, nil},
		{post, "/keys/{id}/rotate", "rotateKey", ofBooks, (*api).rotateKey, nil},
		{post, "/keys/{id}/revoke", "revokeKey", ofBooks, (*api).revokeKey, nil},
		{get, "/keys/{id}/balance", "getBalance", ofBooks, (*api).getBalance, nil},
		{post, "/keys/{id}/deposits", "deposit", ofBooks, (*api).deposit, nil},
		{get, "/usage", "getUsage", ofBooks, (*api).getUsage, nil},
		{get, "/usage/table", "getUsageTable", ofBooks, (*api).getUsageTable, nil},
		{get, "/usage/staked", "getStaked", ofBooks, (*api).getStaked, nil},
		{get, "/feedback", "getFeedback", ofBooks, (*api).getFeedback, nil},
		{get, "/export/requests", "exportRequests", ofBooks, nil, (*api).exportRequests},
		{get, "/export/journal", "exportJournal", ofBooks, nil, (*api).exportJournal},
		{get, "/payments", "listPayments", ofBooks, (*api).listPayments, nil},
		{post, "/payments/forgive", "forgiveLosses", ofBooks, (*api).forgive, nil},
		{get, "/audit", "audit", ofBooks, (*api).audit, nil},
		{get, "/requests", "listRequests", ofBooks, (*api).listRequests, nil},
		{get, "/requests/{id}", "getRequest", ofBooks, (*api).getRequest, nil},
		{get, "/events", "streamEvents", ofEvents, nil, nil},
		{get, "/events/kinds", "listEventKinds", ofProcess, (*api).eventKinds, nil},
		{get, "/providers", "listProviders", ofProviders, (*api).listProviders, nil},
		{post, "/providers/{name}/{verb}", "switchProvider", ofProviders, (*api).switchProvider, nil},
		{get, "/cache", "getCache", ofCache, (*api).getCache, nil},
		{post, "/cache/flush", "flushCache", ofCache, (*api).flushAll, nil},
		{get, "/cache/{key}", "listCache", ofCache, (*api).listCache, nil},
		{remove, "/cache/{key}", "clearCache", ofCache, (*api).clearCache, nil},
		{remove, "/cache/{key}/{entry}", "removeCacheEntry", ofCache, (*api).clearCache, nil},
		{post, "/cache/{key}/flush", "flushCacheOfKey", ofCache, (*api).flushCache, nil},
	}
	for _, g := range []struct {
		kind policy.Holder
		name string
	}{{policy.OfProject, "Project"}, {policy.OfOwner, "Owner"}} {
		at := "/" + string(g.kind) + "s"
		ops = append(ops,
			operation{get, at, "list" + g.name + "s", ofBooks, groups{g.kind}.list, nil},
			operation{post, at, "create" + g.name, ofBooks, groups{g.kind}.create, nil},
			operation{get, at + "/{id}", "get" + g.name, ofBooks, groups{g.kind}.get, nil},
			operation{patch, at + "/{id}", "update" + g.name, ofBooks, groups{g.kind}.update, nil},
		)
	}
	return ops
}

// list is the body of each list.
type list[T any] struct {
	Data []T  `json:"data"`
	More bool `json:"has_more"` // request more with after=, or an earlier until=
}

func listed[T any](all []T, more bool) reply {
	if all == nil {
		all = []T{}
	}
	return reply{body: list[T]{all, more}}
}

// statusBody describes this process.
type statusBody struct {
	Version   string    `json:"version"`
	Started   time.Time `json:"started_at"`
	Books     bool      `json:"books"` // this process serves keys, money, requests and usage
	Cache     bool      `json:"cache"`
	Providers bool      `json:"providers"`
}

func (a *api) status(*http.Request) (reply, error) {
	elsewhere := a.Data != nil
	return reply{body: statusBody{a.Version, a.Started.UTC(), a.Books != nil || elsewhere, a.Cache != nil || elsewhere, a.Providers != nil}}, nil
}

const (
	defaultPage = 100
	maxPage     = 1000
)

// pageOf reads the paging parameters.
func pageOf(r *http.Request) (p admin.Page, err error) {
	q, err := query(r, "after", "limit")
	if err != nil {
		return p, err
	}
	p.After = q.Get("after")
	p.Limit, err = intParam(q, "limit", defaultPage, maxPage)
	return p, err
}

func keyOf(r *http.Request) policy.Account { return policy.Account(r.PathValue("id")) }

func (a *api) listKeys(r *http.Request) (reply, error) {
	p, err := pageOf(r)
	if err != nil {
		return reply{}, err
	}
	keys, more, err := a.Books.Keys(r.Context(), p)
	return listed(keys, more), err
}

// maxIdempotencyKey bounds an Idempotency-Key, in bytes.
const maxIdempotencyKey = 200

// idempotencyKey returns the request's Idempotency-Key; "" without one.
func idempotencyKey(r *http.Request) (string, error) {
	idemKey := r.Header.Get("Idempotency-Key")
	if len(idemKey) > maxIdempotencyKey {
		return "", invalidParam("Idempotency-Key", " is too long")
	}
	return idemKey, nil
}

func (a *api) createKey(r *http.Request) (reply, error) {
	idemKey, err := idempotencyKey(r)
	if err != nil {
		return reply{}, err
	}
	var n admin.NewKey
	if err := readBody(r, &n); err != nil {
		return reply{}, err
	}
	c, err := a.Books.CreateKey(r.Context(), &n, idemKey)
	return reply{status: http.StatusCreated, body: c, target: string(c.ID)}, err
}

func (a *api) getKey(r *http.Request) (reply, error) {
	k, err := a.Books.Key(r.Context(), keyOf(r))
	return reply{body: k}, err
}

func (a *api) updateKey(r *http.Request) (reply, error) {
	var f admin.KeyFields
	if err := readBody(r, &f); err != nil {
		return reply{}, err
	}
	k, err := a.Books.UpdateKey(r.Context(), keyOf(r), &f)
	return reply{body: k, target: string(k.ID)}, err
}

func (a *api) rotateKey(r *http.Request) (reply, error) {
	var how admin.Rotation
	if err := readBody(r, &how); err != nil {
		return reply{}, err
	}
	k, err := a.Books.RotateKey(r.Context(), keyOf(r), how)
	return reply{body: k, target: string(k.ID)}, err
}

func (a *api) revokeKey(r *http.Request) (reply, error) {
	if err := readBody(r, &struct{}{}); err != nil {
		return reply{}, err
	}
	k, err := a.Books.RevokeKey(r.Context(), keyOf(r))
	return reply{body: k, target: string(k.ID)}, err
}

func (a *api) getBalance(r *http.Request) (reply, error) {
	b, err := a.Books.Balance(r.Context(), keyOf(r))
	return reply{body: b}, err
}

// deposit adds money. Without a reference in the body the Idempotency-Key is the reference.
func (a *api) deposit(r *http.Request) (reply, error) {
	idemKey, err := idempotencyKey(r)
	if err != nil {
		return reply{}, err
	}
	var d admin.Deposit
	if err := readBody(r, &d); err != nil {
		return reply{}, err
	}
	if !d.Ref.Given && idemKey != "" {
		d.Ref = admin.Set("idempotency-key:" + idemKey)
	}
	out, err := a.Books.Deposit(r.Context(), keyOf(r), &d)
	return reply{body: out, target: string(out.ID), amount: out.Amount.String()}, err
}

// groups are the operations on projects, or on owners.
type groups struct{ kind policy.Holder }

func (g groups) list(a *api, r *http.Request) (reply, error) {
	p, err := pageOf(r)
	if err != nil {
		return reply{}, err
	}
	all, more, err := a.Books.Groups(r.Context(), g.kind, p)
	return listed(all, more), err
}

func (g groups) create(a *api, r *http.Request) (reply, error) {
	var n admin.NewGroup
	if err := readBody(r, &n); err != nil {
		return reply{}, err
	}
	out, err := a.Books.CreateGroup(r.Context(), g.kind, &n)
	return reply{status: http.StatusCreated, body: out, target: out.ID}, err
}

func (g groups) get(a *api, r *http.Request) (reply, error) {
	out, err := a.Books.Group(r.Context(), g.kind, r.PathValue("id"))
	return reply{body: out}, err
}

func (g groups) update(a *api, r *http.Request) (reply, error) {
	var f admin.GroupFields
	if err := readBody(r, &f); err != nil {
		return reply{}, err
	}
	out, err := a.Books.UpdateGroup(r.Context(), g.kind, r.PathValue("id"), &f)
	return reply{body: out, target: out.ID}, err
}

func (a *api) getUsage(r *http.Request) (reply, error) {
	q, err := query(r, "by", "key", "project", "golem", "since", "until")
	if err != nil {
		return reply{}, err
	}
	f := ledger.Filter{Account: policy.Account(q.Get("key")), Project: q.Get("project"), Golem: q.Get("golem")}
	if f.Since, f.Until, err = timeRange(q); err != nil {
		return reply{}, err
	}
	by := ledger.By(q.Get("by"))
	switch by {
	case "":
		by = ledger.ByModel
	case ledger.ByLayer:
		rows, err := a.Books.Savings(r.Context(), f)
		return listed(rows, false), err
	case ledger.ByModel, ledger.ByProvider, ledger.BySubsystem, ledger.ByDay, ledger.ByKey, ledger.ByProject, ledger.ByGolem:
	}
	rows, err := a.Books.Usage(r.Context(), f, by)
	return listed(rows, false), err
}

// timeRange reads since and until.
func timeRange(q url.Values) (since, until time.Time, err error) {
	if since, err = timeParam(q, "since", false); err != nil {
		return since, until, err
	}
	until, err = timeParam(q, "until", true)
	return since, until, err
}

func (a *api) listRequests(r *http.Request) (reply, error) {
	q, err := query(r, "key", "model", "provider", "status", "since", "until", "limit")
	if err != nil {
		return reply{}, err
	}
	f := ledger.RequestFilter{
		Account: policy.Account(q.Get("key")), Model: policy.ModelID(q.Get("model")), Provider: policy.ProviderID(q.Get("provider")), Status: q.Get("status"),
	}
	if f.Since, f.Until, err = timeRange(q); err != nil {
		return reply{}, err
	}
	limit, err := intParam(q, "limit", defaultPage, maxPage)
	if err != nil {
		return reply{}, err
	}
	f.Limit = limit + 1 // one more shows whether others follow
	found, err := a.Books.Requests(r.Context(), f)
	if err != nil {
		return reply{}, err
	}
	records := make([]json.RawMessage, 0, limit)
	for i := range found[:min(len(found), limit)] {
		records = append(records, admin.Row(&found[i]))
	}
	return listed(records, len(found) > limit), nil
}

func (a *api) getRequest(r *http.Request) (reply, error) {
	record, err := a.Books.Request(r.Context(), r.PathValue("id"))
	return reply{body: record}, err
}

func (a *api) listProviders(*http.Request) (reply, error) {
	return listed(a.Providers(), false), nil
}

func (a *api) switchProvider(r *http.Request) (reply, error) {
	if err := readBody(r, &struct{}{}); err != nil {
		return reply{}, err
	}
	name, verb := r.PathValue("name"), r.PathValue("verb")
	if verb != "enable" && verb != "disable" {
		return reply{}, fault.New(fault.NotFound, "a provider is enabled or disabled", nil)
	}
	if err := a.Switch(r.Context(), name, verb); err != nil {
		return reply{}, fault.New(fault.Conflict, err.Error(), err)
	}
	out := listed(a.Providers(), false)
	out.target = name
	return out, nil
}
