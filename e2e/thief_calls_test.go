package e2e

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// randomTheft is a request for something of an account by another one, or by nobody.
func (l *thiefLab) randomTheft(r *rand.Rand) *rawCall {
	victim := l.accounts[r.IntN(len(l.accounts))]
	thief := l.accounts[r.IntN(len(l.accounts))]
	c := &rawCall{method: http.MethodGet, path: pick(r, victim.paths...), by: thief, about: thief.Name}
	switch {
	case strings.HasPrefix(c.path, "/ui"):
		c.visit(r, victim, thief)
	case c.path == "/venice/stream" && r.IntN(2) == 0:
		c.path += "?token=" + url.QueryEscape(c.badly(r, thief.token, victim.token))
	default:
		c.authorize(r, victim, thief)
	}
	if strings.Contains(c.path, "events") || strings.Contains(c.path, "stream") {
		c.header = append(c.header, "last-event-id: "+eventID(r, victim, thief))
	}
	if r.IntN(3) == 0 {
		c.rewritePath(r)
	}
	if r.IntN(4) == 0 {
		c.method = pick(r, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace, "PROPFIND")
		if c.by == victim { // it may delete its own
			c.method = pick(r, http.MethodHead, http.MethodOptions)
		}
		if c.method == http.MethodPost || c.method == http.MethodPut {
			c.body = pick(r, `{}`, `{"text":"x"}`, `{"score":0}`, `[`, `{"x":1}`)
		}
	}
	if r.IntN(12) == 0 {
		c.header = append(c.header, pick(r, "x-bardo-session-id: "+victim.session.ID, "x-bardo-golem-id: g-9", "x-forwarded-for: 127.0.0.1", "host: elsewhere", "x-bardo-account: "+victim.ID,
			"x-request-id: "+victim.ID, "x-fill: "+strings.Repeat("a", 1<<r.IntN(16)), "cookie: "+strings.Repeat("a=b; ", 1<<r.IntN(10)), "te: trailers", "range: bytes=0-10", "accept: text/csv",
			"x-original-url: /v1/usage", "x-envoy-original-path: /v1/usage", "expect: 100-continue", "upgrade: websocket", "origin: null"))
	}
	return c
}

// badly is one of two credentials, or one that is none of the two any more.
func (c *rawCall) badly(r *rand.Rand, good, others string) string {
	switch r.IntN(3) {
	case 0:
		return good
	case 1:
		c.by, c.about = nil, "nobody, by a changed credential"
		return mutated(r, good)
	default:
		c.by, c.about = nil, "nobody, by a changed credential of another"
		return mutated(r, others)
	}
}

// mutated is a credential with a fault.
func mutated(r *rand.Rand, s string) string {
	at := r.IntN(len(s))
	switch r.IntN(9) {
	case 0: // one bit
		b := []byte(s)
		b[at] ^= 1 << r.IntN(7)
		if b[at] < ' ' || b[at] == 0x7f {
			b[at] = '!'
		}
		return string(b)
	case 1:
		return s[:at]
	case 2:
		return s + pick(r, "x", "=", ".", "A", s)
	case 3:
		return s[:at] + s[at+1:]
	case 4:
		return s[:at] + pick(r, "A", "%", ".", "é", "\t") + s[at:]
	case 5:
		return s[at:] + s[:at] + "x"
	case 6:
		return "x" + strings.ToUpper(s)
	case 7:
		return base64.StdEncoding.EncodeToString([]byte(s))
	default:
		return strings.Repeat(s, 1+r.IntN(40)) + "x"
	}
}

// authorize sets the credential of an endpoint for programs.
func (c *rawCall) authorize(r *rand.Rand, victim, thief *account) {
	header := pick(r, "authorization: Bearer ", "x-api-key: ", "authorization: bearer  ", "x-goog-api-key: ")
	switch r.IntN(8) {
	case 0, 1, 2:
		c.header = append(c.header, header+thief.Key)
	case 3:
		c.by, c.about = nil, "nobody"
	case 4:
		c.by, c.about = thief, "a session of "+thief.Name
		c.header = append(c.header, header+thief.session.Key)
	case 5: // two credentials, of which the second would open more
		c.header = append(c.header, header+thief.Key, "x-fallback: "+victim.Key, "cookie: "+victim.mark)
	case 6:
		c.by, c.about = nil, "nobody, by a token of the stream or a cookie"
		c.header = append(c.header, header+pick(r, victim.token, thief.token), "cookie: "+victim.cookie)
	default:
		c.header = append(c.header, header+c.badly(r, thief.Key, victim.Key))
	}
}

// visit sets the session of a page, and sometimes sends a form.
func (c *rawCall) visit(r *rand.Rand, victim, thief *account) {
	if r.IntN(8) == 0 {
		c.by, c.about = nil, "nobody"
		c.header = append(c.header, "authorization: Bearer "+victim.Key)
		return
	}
	name, token, _ := strings.Cut(thief.cookie, "=")
	_, others, _ := strings.Cut(victim.cookie, "=")
	value := c.badly(r, token, others)
	if strings.ContainsAny(value, "\t%é\"") || !strings.HasPrefix(thief.cookie, name) {
		value = "x" + value
	}
	c.header = append(c.header, pick(r, "cookie: a=b; "+name+"="+value, "cookie: "+name+"="+value))
	if r.IntN(3) == 0 {
		c.form(r, victim, thief)
	}
}

// form makes the call one that changes something of the victim's.
func (c *rawCall) form(r *rand.Rand, victim, thief *account) {
	csrf := pick(r, thief.csrf, victim.csrf+"x", "", strings.ToLower(thief.csrf)+"x")
	c.method, c.header = http.MethodPost, append(c.header, "content-type: application/x-www-form-urlencoded")
	c.path = pick(r, "/ui/cache/delete", "/ui/keys", "/ui/keys/"+victim.ID+"/revoke", "/ui/keys/"+victim.ID+"/limits", "/ui/providers/plain/disable", "/ui/providers/..%2fplain/disable", "/ui/keys/%00/revoke")
	form := url.Values{"csrf": {csrf}, "key": {victim.ID}, "name": {"stolen"}, "spend_day": {"1"}}
	if victim == thief {
		form.Set("key", "nobody")
	}
	c.body = form.Encode()
	c.header = append(c.header, pick(r, "sec-fetch-site: same-origin", "sec-fetch-site: cross-site", "origin: https://evil.example", "origin: null", "x-a: b"))
}

// eventID is where a stream is to go on.
func eventID(r *rand.Rand, victim, thief *account) string {
	theirs, own := victim.events[pick(r, "/v1/events", "/venice/stream")], thief.events[pick(r, "/v1/events", "/venice/stream")]
	boot := own[:strings.LastIndexByte(own, '-')]
	return pick(r, theirs, own, first(theirs), first(own), boot+"--1", boot+"-9223372036854775807", boot+"-9223372036854775808", boot+"-+1", boot+"-1e3", boot+"-", "-", "0", "", own+" ",
		strings.Repeat("9", 1<<r.IntN(14)), mutatedID(r, theirs), mutatedID(r, own), boot+"-"+strings.Repeat("0", 40), "é", boot+"-%00")
}

func mutatedID(r *rand.Rand, s string) string {
	b := []byte(s)
	b[r.IntN(len(b))] = "09-aZ"[r.IntN(5)]
	return string(b)
}

// rewritePath writes the path in another way.
func (c *rawCall) rewritePath(r *rand.Rand) {
	path, query, hasQuery := strings.Cut(c.path, "?")
	segments := strings.Split(path, "/")
	at := 1 + r.IntN(len(segments)-1)
	last := segments[at]
	encode := func(s string) string {
		if s == "" {
			return s
		}
		i := r.IntN(len(s))
		return s[:i] + fmt.Sprintf(pick(r, "%%%02x", "%%%02X", "%%25%02x"), s[i]) + s[i+1:]
	}
	segments[at] = pick(r, encode(last), last+"%00", last+"%2f", "..%2f"+last, "%2e%2e/"+last, "x/../"+last, "./"+last, "/"+last, last+";a=b", last+"%0d%0ax-a:b", last+"%3f", last+"#x", strings.ToUpper(last), last+"/", last+"%20",
		`..\`+last, last+"%c0%af", last+"%80", last+"*", "x%2f..%2f"+last, last+strings.Repeat("/", 3), last+"'", last+"%22", last+strings.Repeat("a", 1<<r.IntN(15)))
	c.path = strings.Join(segments, "/")
	if hasQuery {
		c.path += "?" + pick(r, query, query+"&"+query, strings.ToUpper(query), query+"%00", "&&"+query, query+"&x[]=1", query+";x=1", "%zz")
	} else if r.IntN(3) == 0 {
		c.path += pick(r, "?", "?a=b", "?limit=9999999999999999999", "?limit=-1", "?key=x", "?token=x", "?since=%00", "?%00", "?by="+strings.Repeat("model,", 99))
	}
}

// stolen is what is wrong with an answer; "" for nothing.
func (l *thiefLab) stolen(c *rawCall, status int, header http.Header, body string) string {
	told := fmt.Sprint(header) + body
	for _, a := range l.accounts {
		if a != c.by && (strings.Contains(told, a.mark) && !strings.Contains(c.String(), a.mark) || strings.Contains(told, a.tick)) {
			return "something of " + a.Name + " is shown"
		}
	}
	switch {
	case c.by == nil && status/100 == 2 && c.method != http.MethodOptions && (strings.HasPrefix(c.path, "/v1/") || strings.HasPrefix(c.path, "/venice/")):
		return "nobody is served"
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return "it is an error of the gateway"
	case strings.HasPrefix(c.path, "/ui") && !strings.Contains(c.path, "/..%2f") && status == http.StatusOK && !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") && c.method != http.MethodOptions:
		return "a page has no content security policy"
	case strings.Contains(told, "goroutine ") || strings.Contains(told, "runtime error"):
		return "it shows a stack"
	}
	return ""
}

// assertLoginIsBounded: of many wrong secrets from one address few are looked at, and each that is refused says when to come again.
func (l *thiefLab) assertLoginIsBounded(t *testing.T, address string) {
	t.Helper()
	looked := 0
	for i := range 30 {
		c := rawCall{method: http.MethodPost, path: "/ui/login", header: []string{"content-type: application/x-www-form-urlencoded", fmt.Sprintf("x-forwarded-for: 10.0.0.%d", i)}, body: fmt.Sprintf("secret=wrong%d", i)}
		status, header, body := c.send(t, address)
		switch status {
		case http.StatusUnauthorized:
			looked++
		case http.StatusTooManyRequests:
			if header.Get("Retry-After") == "" {
				t.Errorf("attempt %d: %v", i, header)
			}
		default:
			t.Errorf("attempt %d: %d %s", i, status, body)
		}
	}
	if looked == 0 || looked > 12 {
		t.Errorf("%d of 30 secrets were looked at", looked)
	}
}
