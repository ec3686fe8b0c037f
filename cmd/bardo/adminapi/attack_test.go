package adminapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/policy"
)

// TestWithoutTheTokenNothingIsAnswered, wherever else in the request the token is.
func TestWithoutTheTokenNothingIsAnswered(t *testing.T) {
	for _, headers := range [][]string{
		{"Authorization: "},
		{"Authorization: Bearer"},
		{"Authorization: Bearer " + token + "x"},
		{"Authorization: Bearer " + token[:len(token)-1]},
		{"Authorization: Bearer " + strings.ToUpper(token)},
		{"Authorization: Basic " + token},
		{"Authorization: " + token},
		{"Authorization: ", "X-Api-Key: " + token},
		{"Authorization: ", "Cookie: token=" + token},
		{"Authorization: ", "Bardo-Admin-Via: socket"},
	} {
		s := start(t) // a server for each, so that attempts are not rate-limited
		for _, path := range []string{"/keys", "/openapi.json", "/status", "/nothing", "/keys?token=" + token + "&access_token=" + token, "/../metrics"} {
			a := s.send(http.MethodGet, adminapi.Prefix+path, "", headers...)
			if a.status != http.StatusUnauthorized || !strings.Contains(a.body, `"invalid_admin_token"`) || a.header.Get("WWW-Authenticate") == "" || strings.Contains(a.body, token) {
				t.Errorf("%q %s: %d %s", headers, path, a.status, a.body)
			}
		}
		if strings.Contains(s.log.String(), token) {
			t.Error("the log has the token")
		}
	}
	s := start(t)
	s.do(http.MethodGet, "/status", "", http.StatusOK, "Authorization: bearer "+token)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+adminapi.Prefix+"/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token} // a proxy may use the other one
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two headers: %s", resp.Status)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the token")
	}
}

// TestAnAddressThatHasTheTokenWrongHasToWait: each failure is counted and logged with the address; after ten even the right token is refused. Commands, which
// need no token, are not affected.
func TestAnAddressThatHasTheTokenWrongHasToWait(t *testing.T) {
	s := start(t)
	for i := range attempts.Burst {
		if a := s.send(http.MethodGet, adminapi.Prefix+"/status", "", "Authorization: Bearer wrong"); a.status != http.StatusUnauthorized {
			t.Fatalf("attempt %d: %d %s", i, a.status, a.body)
		}
	}
	if n := strings.Count(s.log.String(), "without the token"); n != attempts.Burst || !strings.Contains(s.log.String(), "address=127.0.0.1") || s.refused.Load() != attempts.Burst {
		t.Errorf("%d are logged, %d counted:\n%s", n, s.refused.Load(), s.log)
	}
	a := s.send(http.MethodGet, adminapi.Prefix+"/status", "")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "rate_limit_exceeded") {
		t.Errorf("the right token, too late: %d %s %v", a.status, a.body, a.header)
	}
	if n := s.refused.Load(); n != attempts.Burst+1 {
		t.Errorf("%d are counted", n)
	}
	local := adminapi.Local(adminapi.Handler(adminapi.Options{Books: adminapi.BooksOf(home.Dir(t.TempDir()), s.books)}))
	if _, err := adminapi.Call[map[string]any](t.Context(), local, http.MethodGet, "/status", nil); err != nil {
		t.Errorf("a command: %v", err)
	}
}

// TestPathsLeadNowhereElse, and nothing is redirected.
func TestPathsLeadNowhereElse(t *testing.T) {
	s := start(t)
	for _, path := range []string{
		"/admin/v1", "/admin/v1/", "/admin/v1/keys/", "/admin/v1//keys", "/admin/v1/keys/../keys", "/admin/v1/./keys", "/admin/v1/keys/..%2f..%2f..%2fmetrics",
		"/admin/v1/%2e%2e/keys", "/admin/v1/keys/%2e%2e/keys", "/admin/v2/keys", "/metrics", "/", "/admin/v1/keys/x/y/z",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if a := s.send(method, path, ""); a.status != http.StatusNotFound || a.header.Get("Location") != "" {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
	}
	for _, id := range []string{"%00", "a%2Fb", "%27%20OR%201%3D1--", "..%00", "%F0%9F%98%80", strings.Repeat("x", 3000), "%ff"} {
		s.refuses(http.MethodGet, "/keys/"+id, "", http.StatusNotFound, "no such key")
	}
	id, secret := s.created(`{"name":"a"}`)
	for _, path := range []string{"", "/balance"} {
		s.refuses(http.MethodGet, "/keys/"+secret+path, "", http.StatusBadRequest, "not the key itself")
	}
	if log := s.log.String(); strings.Contains(log, secret) || !strings.Contains(log, id) {
		t.Errorf("the log: %s", log)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	s := start(t)
	for _, r := range []struct{ method, path, allow string }{
		{http.MethodDelete, "/keys", "GET, POST"},
		{http.MethodPut, "/keys/x", "GET, PATCH"},
		{http.MethodGet, "/cache/flush", "POST"},
		{http.MethodOptions, "/keys", "GET, POST"},
		{http.MethodHead, "/keys", "GET, POST"},
		{http.MethodGet, "/keys/x/revoke", "POST"},
	} {
		a := s.send(r.method, adminapi.Prefix+r.path, "", "Origin: https://evil.example")
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != r.allow {
			t.Errorf("%s %s: %d, allow %q", r.method, r.path, a.status, a.header.Get("Allow"))
		}
		for name := range a.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s %s: %s", r.method, r.path, name)
			}
		}
	}
}

// endless is a body that never ends.
type endless struct{ sent int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.sent += len(b)
	return len(b), nil
}

func TestBodiesAreBounded(t *testing.T) {
	s := start(t)
	s.refuses(http.MethodPost, "/keys", `{"name":"`+strings.Repeat("x", 64<<10)+`"}`, http.StatusRequestEntityTooLarge, "larger than 65536 bytes")
	e := &endless{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+adminapi.Prefix+"/keys", io.NopCloser(e))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil { // the server may close the connection first
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("an endless body: %s", resp.Status)
		}
	}
	if e.sent > 16<<20 {
		t.Errorf("%d bytes of an endless body were taken", e.sent)
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json-patch+json"} {
		s.refuses(http.MethodPost, "/keys", `{"name":"a"}`, http.StatusUnsupportedMediaType, "application/json", "Content-Type: "+kind)
	}
	s.created(`{"name":"a"}`, "Content-Type: application/json; charset=utf-8")
}

// TestBodiesAreReadStrictly: as D-85 requires for clients' requests.
func TestBodiesAreReadStrictly(t *testing.T) {
	s := start(t)
	for body, words := range map[string]string{
		`{"name":"a","name":"b"}`:                          "name",
		`{"name":"a","\u006eame":"b"}`:                     "name",
		`{"name":"a","Tier":"free"}`:                       "Tier is not a member",
		`{"name":"a","Name":"b"}`:                          "Name is not a member",
		`{"name":"a","prepaid":true}`:                      "prepaid is not a member",
		`{"name":"a","policies":{"PII":"block"}}`:          "policies.PII is not a member",
		`{"name":"a","policies":null}`:                     "policies",
		`{"name":"a"} {}`:                                  "the body",
		`{"name":"a"`:                                      "the body",
		`[{"name":"a"}]`:                                   "not a JSON object",
		`null`:                                             "not a JSON object",
		strings.Repeat("[", 20_000):                        "the body",
		`{"name":1}`:                                       "name: a JSON number, expected a string",
		`{"name":"a","rpm":"5"}`:                           "rpm: a JSON string, expected a whole number",
		`{"name":"a","rpm":1.5}`:                           "rpm",
		`{"name":"a","rpm":-1}`:                            "rpm -1",
		`{"name":"a","rpm":99999999999}`:                   "rpm",
		`{"name":"a","read_only":"yes"}`:                   "read_only: a JSON string, expected true or false",
		`{"name":"a","ip":[]}`:                             "ip is empty",
		`{"name":"a","ip":["10.0.0.0/33"]}`:                "expected an address",
		`{"name":"a","ip":["fe80::1%eth0"]}`:               "expected an address",
		`{"name":"a","models":[]}`:                         "models",
		`{"name":"a","models":["a*b"]}`:                    "a prefix ends in its only *",
		`{"name":"a","models":["a\nb"]}`:                   "control character",
		`{"name":"a","subsystems":["nothing"]}`:            "is no subsystem",
		`{"name":"a","origins":["https://a/b"]}`:           "without a path",
		`{"name":"a","expires_at":"yesterday"}`:            "expires_at",
		`{"name":"a","expires_at":"2020-01-01T00:00:00Z"}`: "a time to come",
		`{"name":"a","tier":"gold"}`:                       "expected free, pro or golem",
		`{"name":"a","tier":null}`:                         "expected free, pro or golem",
		`{"name":"a","credit_usd":5}`:                      "metered",
		`{"name":"a","publishable":true}`:                  "publishable needs",
		`{}`:                                               "name is missing",
		``:                                                 "name is missing",
	} {
		s.refuses(http.MethodPost, "/keys", body, http.StatusBadRequest, words)
	}
	for _, name := range []string{"", "  ", "a\nb", "\u202eevil", "\u200b", "\x1b[31m", "a\u0000", strings.Repeat("é", 51)} {
		b, err := json.Marshal(map[string]string{"name": name})
		if err != nil {
			t.Fatal(err)
		}
		s.refuses(http.MethodPost, "/keys", string(b), http.StatusBadRequest, "name")
	}
	s.refuses(http.MethodPost, "/keys", "{\"name\":\"\xff\"}", http.StatusBadRequest, "")
	if all := s.do(http.MethodGet, "/keys", "", http.StatusOK); len(data(all)) != 0 {
		t.Errorf("made %v", all)
	}
	id, _ := s.created(`{"name":"a"}`)
	s.refuses(http.MethodPatch, "/keys/"+id, `{}`, http.StatusBadRequest, "nothing to change")
	s.do(http.MethodPost, "/owners", `{"id":"acme"}`, http.StatusCreated)
	s.refuses(http.MethodPatch, "/owners/acme", "", http.StatusBadRequest, "nothing to change")
	s.refuses(http.MethodPost, "/cache/flush", `{"dry_run":null}`, http.StatusBadRequest, "dry_run: null")
	for _, path := range []string{"/usage?by=", "/payments?state=", "/export/requests?records="} {
		s.refuses(http.MethodGet, path, "", http.StatusBadRequest, "is empty")
	}
	s.refuses(http.MethodDelete, "/cache/"+id+"?dry_run=", "", http.StatusBadRequest, "is empty")
	s.refuses(http.MethodPatch, "/keys/"+id, `{"balance_usd":5}`, http.StatusBadRequest, "balance_usd is not a member")
	s.refuses(http.MethodPost, "/keys/"+id+"/rotate", `{"overlap_seconds":-1}`, http.StatusBadRequest, "overlap_seconds")
	s.refuses(http.MethodPost, "/keys/"+id+"/rotate", `{"overlap_seconds":9223372036854775807}`, http.StatusBadRequest, "overlap_seconds")
	s.refuses(http.MethodPost, "/keys/"+id+"/revoke", `{"x":1}`, http.StatusBadRequest, "x is not a member")
}

// TestAmountsCannotBeBent: negative, too large, too precise and non-numeric amounts move no money, and a balance does not overflow.
func TestAmountsCannotBeBent(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a","balance_usd":1}`)
	for _, amount := range []string{
		"-1", "-0.000001", "0", "-0", "0.0000001", "1e3", "1E9", "9223372036854775807", "9223372036854775808", "9223372036854.775808", "1000000000.000001",
		strings.Repeat("9", 400), `"5"`, "null", "true", "[1]", "{}", "0x10", "NaN", "1_000", "٣",
	} {
		a := s.send(http.MethodPost, adminapi.Prefix+"/keys/"+id+"/deposits", `{"amount_usd":`+amount+`,"ref":"r"}`)
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", amount, a.status, a.body)
		}
		for _, member := range []string{"limit_usd_day", "limit_usd_month", "credit_usd"} {
			a := s.send(http.MethodPatch, adminapi.Prefix+"/keys/"+id, fmt.Sprintf(`{%q:%s}`, member, amount))
			harmless := amount == "0" || amount == "-0" || amount == "null"
			if harmless != (a.status == http.StatusOK) || !harmless && a.status != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", member, amount, a.status, a.body)
			}
		}
	}
	for _, ref := range []string{`""`, `" "`, `"a\u0000b"`, `"` + strings.Repeat("x", 201) + `"`, `5`} {
		s.refuses(http.MethodPost, "/keys/"+id+"/deposits", `{"amount_usd":1,"ref":`+ref+`}`, http.StatusBadRequest, "ref")
	}
	if b := s.do(http.MethodGet, "/keys/"+id+"/balance", "", http.StatusOK); b["balance_usd"] != 1.0 {
		t.Errorf("%v", b)
	}
	var all sync.WaitGroup
	for i := range 999 { // concurrently, so that they are committed together
		all.Go(func() {
			if _, err := s.books.Deposit(t.Context(), policy.Account(id), 1_000_000_000*policy.USD, fmt.Sprintf("r%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.refuses(http.MethodPost, "/keys/"+id+"/deposits", `{"amount_usd":1000000000,"ref":"last"}`, http.StatusBadRequest, "a balance is at most")
	if r, err := s.books.Audit(t.Context()); err != nil || !r.OK {
		t.Errorf("audit: %+v %v", r, err)
	}
}

// TestEachChangeHasALine with the operation, its target and how it was requested, and no content.
func TestEachChangeHasALine(t *testing.T) {
	s := start(t)
	id, secret := s.created(`{"name":"very private","balance_usd":1}`, "Bardo-Admin-Via: socket")
	s.do(http.MethodPost, "/keys/"+id+"/deposits", `{"amount_usd":2,"ref":"private invoice"}`, http.StatusOK)
	s.refuses(http.MethodPatch, "/keys/nobody-private", `{"name":"very private"}`, http.StatusNotFound, "no such key")
	s.do(http.MethodGet, "/keys", "", http.StatusOK)
	log := s.log.String()
	for _, want := range []string{
		`msg="admin change" operation=createKey via=http target=` + id, `operation=deposit via=http target=` + id + ` usd=2.000000`,
		`msg="admin change refused" operation=updateKey via=http code=not_found`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	for _, hidden := range []string{"private", secret, token, "listKeys"} {
		if strings.Contains(log, hidden) {
			t.Errorf("the log has %q:\n%s", hidden, log)
		}
	}
}

// TestAnInternalErrorShowsNoCause if a token is required: the cause may name files. It is in the log.
func TestAnInternalErrorShowsNoCause(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a"}`)
	if err := s.books.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/keys", "/keys/" + url.PathEscape(id), "/usage"} {
		a := s.send(http.MethodGet, adminapi.Prefix+path, "")
		if a.status < http.StatusInternalServerError || strings.Contains(a.body, "sql") || strings.Contains(a.body, "/") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if !strings.Contains(s.log.String(), "database is closed") {
			t.Errorf("%s: %s, and the log has %s", path, a.body, s.log.String())
		}
		s.log.Reset()
	}
}

func TestAPartOfAnotherProcessIsNotImplementedHere(t *testing.T) {
	s := start(t)
	s.do(http.MethodGet, "/cache", "", http.StatusOK)
	c := adminapi.Local(adminapi.Handler(adminapi.Options{Providers: s.providers, Switch: s.turn}))
	_, err := adminapi.Call[map[string]any](t.Context(), c, http.MethodGet, "/keys", nil)
	if err == nil || !strings.Contains(err.Error(), "this process does not have that") {
		t.Errorf("keys of a control plane: %v", err)
	}
	out, err := adminapi.Call[struct{ Data []map[string]any }](t.Context(), c, http.MethodGet, "/providers", nil)
	if err != nil || len(out.Data) != 1 {
		t.Errorf("providers of a control plane: %v %v", out, err)
	}
	s.stored(policy.FreePool, 1, "m")
}
