package xds_test

import (
	"net/http"
	"testing"
)

func TestFailoverGoesDownTheRequestsOrder(t *testing.T) {
	bad := fake("bad", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "busy", 429)
	})
	good := says("good")
	l := newLab(t, nil, good, bad)
	a := l.post("/v1/chat/completions", `{"q":1}`, "x-script-order", "bad,good~retry", "x-script-path", "json")
	if a.status != 200 || a.body != `{"from":"good"}` {
		t.Errorf("answer %d %q", a.status, a.body)
	}
	t.Logf("%+v", l.sidecar.last())
	t.Logf("%+v", good.seen.list())
	t.Logf("%+v", bad.seen.list())
}
