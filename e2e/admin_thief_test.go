package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// adminPaths are operations that only the operator may have done; none of them changes anything.
var adminPaths = []string{"/status", "/keys", "/keys?limit=1", "/requests", "/usage", "/usage/table?by=key", "/audit", "/events", "/providers", "/cache", "/payments", "/export/journal", "/openapi.json", "/projects", "/owners"}

// fromElsewhere sends raw bytes from another address of this machine, and returns the status and the beginning of the answer; 0 for a connection that was closed.
func fromElsewhere(t *testing.T, local, to, request string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callWithin)
	defer cancel()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}).DialContext(ctx, "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(callWithin))
	_, _ = io.WriteString(conn, request) // the answer says what became of it
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(followed)) // of a stream
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// TestTheAdminAPIIsForWhoeverHasItsTokenAlone: random requests with the token changed, elsewhere, twice or in another scheme, and with paths, methods and hosts that are mutated: none
// is served but one with the token in its one place; and an address that has it wrong too often waits, whatever it sends.
func TestTheAdminAPIIsForWhoeverHasItsTokenAlone(t *testing.T) {
	t.Parallel()
	inShapes(t, func(t *testing.T, shape string, r *rand.Rand) {
		t.Helper()
		l := runThiefLab(t, shape)
		token, to := operatorsToken(t, l.Gateway), strings.TrimPrefix(l.Admin, "http://")
		served := 0
		statuses := map[int]int{}
		for i := range 240 {
			header, good := adminHeader(r, token, l.accounts[0].Key)
			path := "/admin/v1" + pick(r, adminPaths...)
			odd := r.IntN(3) == 0
			if odd {
				path = oddAdminPath(r, path)
			}
			method := pick(r, http.MethodGet, http.MethodGet, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace)
			request := fmt.Sprintf("%s %s HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n%s\r\n\r\n", method, path, to, header)
			status, body := fromElsewhere(t, fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200), to, request)
			statuses[status]++
			switch {
			case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
				t.Errorf("%q: %d %s", request, status, body)
			case !good && (status/100 == 2 || strings.Contains(body, "MARK") || strings.Contains(body, l.accounts[0].ID)):
				t.Errorf("%q: %d %.300s", request, status, body)
			case good && !odd && method == http.MethodGet && status != http.StatusOK:
				t.Errorf("%q: %d %s", request, status, body)
			case good && status == http.StatusOK:
				served++
			}
		}
		if served < 10 || statuses[http.StatusUnauthorized] < 50 {
			t.Errorf("the answers have the statuses %v", statuses)
		}
		var after []int
		for range 14 {
			status, _ := fromElsewhere(t, "127.0.9.9", to, "GET /admin/v1/keys HTTP/1.1\r\nhost: "+to+"\r\nauthorization: Bearer x\r\nconnection: close\r\n\r\n")
			after = append(after, status)
		}
		status, _ := fromElsewhere(t, "127.0.9.9", to, "GET /admin/v1/keys HTTP/1.1\r\nhost: "+to+"\r\nauthorization: Bearer "+token+"\r\nconnection: close\r\n\r\n")
		if after[0] != http.StatusUnauthorized || after[13] != http.StatusTooManyRequests || status != http.StatusTooManyRequests {
			t.Errorf("wrong tokens of one address: %v, then the right one: %d", after, status)
		}
		if log := l.Log(); strings.Contains(log, token) || strings.Contains(log, "panic") {
			t.Error("the log has the token, or a panic")
		}
	})
}

// adminHeader is where a request has the token, or something like it. good reports whether it is where it counts.
func adminHeader(r *rand.Rand, token, key string) (header string, good bool) {
	const auth = "authorization: Bearer "
	all := []struct {
		header string
		good   bool
	}{
		{auth + token, true},
		{"Authorization: bearer  " + token, true},
		{auth + mutated(r, token), false},
		{auth + key, false},
		{auth + token + "\r\n" + auth + token, false},
		{auth + "x\r\n" + auth + token, false},
		{"authorization: " + token, false},
		{"authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+token)), false},
		{"authorization: Token " + token, false},
		{"x-api-key: " + token, false},
		{"cookie: admin-token=" + token + "; bardo_ui=" + token, false},
		{"x-admin-token: " + token + "\r\nx-bardo-admin-via: socket", false},
		{"x-authorization: Bearer " + token, false},
		{"proxy-authorization: Bearer " + token, false},
		{"x: y", false},
		{auth + token + "\r\norigin: https://evil.example", false},
		{auth + token + "\r\nsec-fetch-site: cross-site\r\norigin: null", false},
		{auth, false},
	}
	h := all[r.IntN(len(all))]
	if strings.ContainsAny(h.header, "\t") || !isASCII(h.header) {
		return auth + "changed", false
	}
	return h.header, h.good
}

func isASCII(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(b byte) bool { return b >= 0x80 })
}

// oddAdminPath is a path of the admin API in another spelling.
func oddAdminPath(r *rand.Rand, path string) string {
	return pick(r, "/"+path, strings.Replace(path, "/v1", "/v1/..", 1), strings.Replace(path, "/v1", "/v1/%2e%2e/v1", 1), strings.ToUpper(path), path+"/", path+"%00", path+"?token=x", path+"?limit=-1", path+";x=1", "/metrics/.."+path,
		"/healthz/%2e%2e"+path, strings.Replace(path, "/admin", "/%61dmin", 1), path+"?"+strings.Repeat("a=b&", 200), path+"/%2f", path+"/x/y/z", strings.Replace(path, "v1", "v2", 1))
}
