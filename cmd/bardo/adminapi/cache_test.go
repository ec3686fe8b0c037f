package adminapi_test

import (
	"net/http"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/policy"
)

// stored stores an answer of a model in a key's cache.
func (s *server) stored(of policy.Account, n byte, model policy.ModelID) {
	s.Helper()
	e := cache.NewEntry([]chat.Event{{Kind: chat.Start}, {Kind: chat.Text, Text: []byte("a secret answer")}, {Kind: chat.End}})
	e.Key[0], e.By.Model, e.By.Provider = n, model, "p"
	e.Created, e.Expires = time.Now(), time.Now().Add(time.Hour)
	if !s.cache.Restore(of, e) {
		s.Fatal("the entry was not stored")
	}
}

func TestTheCacheOverHTTP(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a"}`)
	key := policy.Account(id)
	fill := func() {
		s.stored(key, 1, "m")
		s.stored(key, 2, "m")
		s.stored(key, 3, "n")
		s.stored("", 4, "m")
		s.stored(policy.FreePool, 5, "m")
	}
	deleted := func(out map[string]any, want float64, dry bool) {
		t.Helper()
		if out["deleted"] != want || out["dry_run"] != dry {
			t.Errorf("%v, want %v deleted", out, want)
		}
	}
	fill()
	if all := s.do(http.MethodGet, "/cache", "", http.StatusOK); len(data(all)) != 3 || all["entries"] != 5.0 {
		t.Errorf("%v", all)
	}
	listing := s.do(http.MethodGet, "/cache/"+id, "", http.StatusOK)
	if listing["entries"] != 3.0 || listing["epoch"] != 1.0 {
		t.Errorf("%v", listing)
	}
	entry := data(listing)[0].(map[string]any)["id"].(string)
	deleted(s.do(http.MethodDelete, "/cache/"+id+"/"+entry+"?dry_run=true", "", http.StatusOK), 1, true)
	deleted(s.do(http.MethodDelete, "/cache/"+id+"/"+entry, "", http.StatusOK), 1, false)
	s.refuses(http.MethodDelete, "/cache/"+id+"/"+entry, "", http.StatusNotFound, "no such entry")
	fill()
	deleted(s.do(http.MethodDelete, "/cache/"+id+"?model=m", "", http.StatusOK), 2, false)
	deleted(s.do(http.MethodDelete, "/cache/"+id+"?dry_run=true", "", http.StatusOK), 1, true)
	deleted(s.do(http.MethodDelete, "/cache/anonymous", "", http.StatusOK), 1, false)
	fill()
	deleted(s.do(http.MethodPost, "/cache/"+id+"/flush", `{"dry_run":true}`, http.StatusOK), 3, true)
	out := s.do(http.MethodPost, "/cache/"+id+"/flush", "", http.StatusOK)
	deleted(out, 3, false)
	if out["epoch"] != 2.0 {
		t.Errorf("%v, want epoch 2", out)
	}
	fill()
	deleted(s.do(http.MethodPost, "/cache/flush", `{"dry_run":true}`, http.StatusOK), 5, true)
	deleted(s.do(http.MethodPost, "/cache/flush", `{}`, http.StatusOK), 5, false)
	if n, _ := s.cache.Size(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	for _, r := range []struct{ method, path string }{
		{http.MethodGet, "/cache/nobody"}, {http.MethodDelete, "/cache/nobody"}, {http.MethodPost, "/cache/nobody/flush"},
	} {
		s.refuses(r.method, r.path, "", http.StatusNotFound, "no such key")
	}
	s.refuses(http.MethodDelete, "/cache/"+id+"?dryrun=true", "", http.StatusBadRequest, "dryrun")
	s.refuses(http.MethodDelete, "/cache/"+id+"?dry_run=yes", "", http.StatusBadRequest, "dry_run")
	s.refuses(http.MethodDelete, "/cache/"+id+"?model=a&model=b", "", http.StatusBadRequest, "twice")
}
