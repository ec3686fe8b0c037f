package ui

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// entry is a stored answer, without its content.
type entry struct {
	ID, Model, Provider string
	Created, Expires    time.Time
	Stale, Semantic     bool
	Bytes, Hits         int64
	Input, Output       int64
}

// store is one key's share of the cache.
type store struct {
	Account     string
	Name        string
	Count       int
	Bytes, Hits int64
	Misses      int64
	Saved       policy.Micro
	Entries     []entry // of the chosen key only
}

// cachesData is the cache shares of the viewer's keys, and the entries of the chosen one.
type cachesData struct {
	Stores []store
	Chosen *store // nil: none
	Own    bool   // the viewer may delete its entries
	Names  map[policy.Account]string
	Done   string
}

// maxStores bounds how many keys' shares one page lists.
const maxStores = 200

func (s *Server) caches(w http.ResponseWriter, r *http.Request, v *viewer) error {
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	key := policy.Account(r.URL.Query().Get("key"))
	if key == "" && !v.Operator {
		key = v.Key
	}
	if key != "" && !v.maySee(key) {
		return fault.New(fault.NotFound, "There is no such key.", nil)
	}
	d := cachesData{Names: names, Own: v.mayDelete(key), Done: doneText(r.URL.Query().Get("done"))}
	if d.Stores, err = s.stores(r, names); err != nil {
		return err
	}
	for i := range d.Stores {
		if d.Stores[i].Account == string(key) {
			d.Chosen = &d.Stores[i]
		}
	}
	s.render(w, http.StatusOK, v, "cache", view{Title: "Cache", Data: d})
	return nil
}

// mayDelete reports whether the viewer may delete an account's entries.
func (v *viewer) mayDelete(a policy.Account) bool { return a != "" && (v.Operator || v.Key == a) }

func (s *Server) stores(r *http.Request, names map[policy.Account]string) (all []store, err error) {
	for account, name := range names {
		if len(all) == maxStores {
			break
		}
		l, err := s.o.Local().Answers.List(r.Context(), account)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "The store of answers that the gateways share does not answer: try again.", err)
		}
		c := store{Account: string(account), Name: name, Count: l.Count, Bytes: l.Bytes, Hits: l.Hits, Misses: l.Misses, Saved: l.Saved}
		now := s.o.Now()
		for _, e := range l.Entries {
			c.Entries = append(c.Entries, entry{
				ID: e.Key.ID(), Model: string(e.By.Model), Provider: string(e.By.Provider), Created: e.Created.UTC(), Expires: e.Expires.UTC(),
				Stale: !now.Before(e.Expires), Semantic: e.Semantic, Bytes: e.Size(), Hits: e.Hits(), Input: e.Usage.TotalInput(), Output: e.Usage.Output,
			})
		}
		all = append(all, c)
	}
	sortStores(all)
	return all, nil
}

// deleteCached deletes one entry (id), the one that answered a request (request), or all of a key (all), as DELETE /v1/cache does for the key.
func (s *Server) deleteCached(w http.ResponseWriter, r *http.Request, v *viewer) error {
	account, id, request := policy.Account(r.PostFormValue("key")), r.PostFormValue("id"), r.PostFormValue("request")
	if !v.mayDelete(account) {
		return fault.New(fault.KeyRestricted, "Only the key itself and the operator may delete what the cache holds of a key.", nil)
	}
	row, ok, err := s.o.Books.Key(r.Context(), account)
	if err != nil || !ok {
		return fault.New(fault.NotFound, "There is no such key.", err)
	}
	hd := stream.Head{Method: http.MethodDelete, Path: "/v1/cache"}
	back, done := "/ui/cache?key="+url.QueryEscape(string(account))+"&", "removed"
	switch {
	case request != "":
		hd.Query = url.Values{"request": {request}}.Encode()
		back = "/ui/requests/" + url.PathEscape(request) + "?"
	case id != "":
		hd.Path += "/" + id
	case r.PostFormValue("all") == "yes":
		done = "cleared"
	default:
		return fault.New(fault.InvalidRequest, "The form names nothing to delete.", nil)
	}
	p := row.Principal()
	p.ReadOnly = p.ReadOnly && !v.Operator
	_, err = s.o.Local().ClearCache(r.Context(), &api.Caller{Principal: p, Head: &hd})
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.NotFound {
		done, err = "gone", nil
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, back+"done="+done, http.StatusSeeOther)
	return nil
}
