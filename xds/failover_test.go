package xds_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/xds/state"
)

const (
	chatPath = "/v1/chat/completions"
	answered = `{"from":"good"}`
)

func refuses(name string, status int, headers ...string) provider {
	return fake(name, func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		http.Error(w, "no", status)
	})
}

// breaks sends the beginning of a JSON answer and then drops the connection.
func breaks(name string) provider {
	return fake(name, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000000")
		_, _ = io.WriteString(w, `{"from":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// claims answers 200 with a body that is not a valid answer.
func claims(name, body string) provider {
	return fake(name, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
}

func hangs(name string) provider {
	return fake(name, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// nowhere is a provider at an address where nothing listens.
func nowhere(t *testing.T, name string) provider {
	t.Helper()
	return provider{name: name, endpoint: "http://" + proctest.Nobody(t)}
}

func TestAnAttemptThatFailsIsFollowedByTheNextOfTheOrder(t *testing.T) {
	good := says("good")
	l := newLab(t, nil, good,
		refuses("limited", 429, "Retry-After", "7"), refuses("overloaded", 529), refuses("unauthorized", 401),
		breaks("breaks"), hangs("hangs"), nowhere(t, "refused"),
		claims("saysopenai", `{"error": {"message": "x", "type": "server_error", "code": null}}`),
		claims("saysanthropic", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`),
		claims("sayscode", strings.Repeat("\n", 1000)+`{ "error" : {"message":"x","code":429}}`),
		claims("saysnothing", ""), claims("saysahtml", "<html>"),
		provider{name: "unknown", endpoint: "http://no-such-host.invalid"},
		provider{name: "wrongtls", endpoint: "https://" + strings.TrimPrefix(serverURL(t), "http://")},
	)
	for _, tt := range []struct {
		first   string
		outcome string // what the sidecar learns of the first attempt
		headers []string
	}{
		{"limited", "limited;429;7", nil},
		{"overloaded", "overloaded;529;", nil},
		{"unauthorized", "unauthorized;401;", nil},
		{"refused", "", nil},
		{"unknown", "", nil},
		{"wrongtls", "", nil},
		{"hangs", "", []string{"x-script-per-try", "3000"}},
		{"breaks", "", nil},
		{"saysopenai", "saysopenai;502;", nil},
		{"saysanthropic", "saysanthropic;529;", nil},
		{"sayscode", "sayscode;429;", nil},
		{"saysnothing", "saysnothing;502;", nil},
		{"saysahtml", "saysahtml;502;", nil},
	} {
		t.Run(tt.first, func(t *testing.T) {
			l := l.in(t)
			a := l.post(chatPath, `{"q":1}`, append(tt.headers, "x-script-path", "json", "x-script-order", tt.first+",good~retry")...)
			if a.status != 200 || a.body != answered || a.err != nil {
				t.Errorf("answer is %d %q %v, want good's", a.status, a.body, a.err)
			}
			o := l.sidecar.last()
			if o.attempts["attempt_1"] != tt.outcome || o.attempts["attempt_2"] != "" {
				t.Errorf("outcomes are %v", o.attempts)
			}
			if o.cluster != "good~retry" || o.response["x-envoy-attempt-count"] != "2" || o.details != "via_upstream" {
				t.Errorf("Pitfall 11: answered by %q after %q attempts, %q", o.cluster, o.response["x-envoy-attempt-count"], o.details)
			}
		})
	}
}

func TestEveryAttemptThatFailedIsNotedUnderItsNumber(t *testing.T) {
	l := newLab(t, nil, says("good"), refuses("first", 503), refuses("second", 429))
	a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "first,second~retry,good~retry")
	if a.status != 200 || a.body != answered {
		t.Errorf("answer is %d %q, want good's", a.status, a.body)
	}
	want := map[string]string{"attempt_1": "first;503;", "attempt_2": "second~retry;429;"}
	if got := l.sidecar.last().attempts; !maps.Equal(got, want) {
		t.Errorf("outcomes are %v, want %v", got, want)
	}
}

// The sidecar reads the answers to its own calls itself, so that nothing watches them in Envoy.
func TestAnErrorInsideAnAnswerReachesTheSidecarsOwnCallsAsItIs(t *testing.T) {
	const inside = `{"error":{"message":"x","type":"server_error","code":null}}`
	l := newLab(t, nil, claims("inside", inside))
	a := l.egress(chatPath, "{}", state.HeaderCluster, "inside", state.HeaderExchange, secret+".id")
	if a.status != 200 || a.body != inside {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
}

func TestWhatTheCallerDidWrongIsNotTriedElsewhere(t *testing.T) {
	statuses := []int{400, 404, 413, 422}
	good := says("good")
	inside := `{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`
	all := []provider{good, claims("inside", inside)}
	for _, s := range statuses {
		all = append(all, refuses(fmt.Sprint("p", s), s))
	}
	l := newLab(t, nil, all...)
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "inside,good~retry"); a.status != 400 || a.body != inside {
		t.Errorf("K-56: an error inside a 200 is %d %q, want 400 of the provider", a.status, a.body)
	}
	for _, s := range statuses {
		a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", fmt.Sprintf("p%d,good~retry", s))
		if a.status != s || a.body != "no\n" {
			t.Errorf("K-56: answer is %d %q, want %d of the provider", a.status, a.body, s)
		}
	}
	if n := len(good.seen.list()); n != 0 {
		t.Errorf("another provider was asked %d times", n)
	}
}

func TestWithoutItsOwnOrderARequestFollowsTheDefaultOne(t *testing.T) {
	a, b := refuses("a", 503), says("good")
	l := newLab(t, nil, a, b)
	if got := l.post(chatPath, "{}", "x-script-path", "json"); got.body != answered {
		t.Errorf("answer is %d %q", got.status, got.body)
	}
	l.set(func(s *state.State) { s.Order[0], s.Order[1] = s.Order[1], s.Order[0] })
	if got := l.post(chatPath, "{}", "x-script-path", "json"); got.body != answered {
		t.Errorf("answer is %d %q", got.status, got.body)
	}
	if n := len(a.seen.list()); n != 1 {
		t.Errorf("the provider that went last was asked %d times, want 1", n)
	}
}

func TestWhatWasWrittenForOneProviderNeverReachesAnother(t *testing.T) {
	bad, good := refuses("bad", 503), says("good")
	l := newLab(t, nil, good, bad)
	for _, order := range []string{"unheard", "unheard,unheard", "bad,unheard", "bad,unheard~retry,unheard", "bad,good~retry,x,x,x,x,x"} {
		l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", order)
	}
	for _, s := range good.seen.list() {
		if s.header.Get("X-Key") != "good~retry" || s.path != "/for/good~retry" {
			t.Errorf("good was sent %s with the credential of %q", s.path, s.header.Get("X-Key"))
		}
	}
	if len(good.seen.list()) == 0 {
		t.Error("no attempt fell back to the default order")
	}
}

func TestAGoodAnswerIsNotTakenForAnError(t *testing.T) {
	answers := map[string]string{
		"noerror": `{"error":null,"choices":[]}`, "text": `{"id":"error","choices":[{"message":{"content":"{\"error\":{}}"}}]}`,
		"blank": strings.Repeat("\n", 200) + `{"choices":[]}`, "typed": `{"type":"message","error":{}}`,
	}
	all := []provider{says("good")}
	for name, body := range answers {
		all = append(all, claims(name, body))
	}
	l := newLab(t, nil, all...)
	for name, body := range answers {
		if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", name+",good~retry"); a.status != 200 || a.body != body {
			t.Errorf("%s: answer is %d %q", name, a.status, a.body)
		}
	}
}

// TestPitfall06AFailingHostIsStillTried: it would be ejected otherwise, and Envoy does not fail over from a cluster without a host.
func TestPitfall06AFailingHostIsStillTried(t *testing.T) {
	bad := refuses("bad", 503)
	l := newLab(t, nil, bad, says("good"))
	const many = 40
	for range many {
		if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "bad,good~retry"); a.body != answered {
			t.Fatalf("answer is %d %q", a.status, a.body)
		}
	}
	if n := len(bad.seen.list()); n != many {
		t.Errorf("of %d requests %d tried it", many, n)
	}
}

func TestASingleProviderIsTriedTwice(t *testing.T) {
	var asked atomic.Int32
	l := newLab(t, nil, fake("good", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, answered)
	}))
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good,good~retry"); a.body != answered {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
}

func TestPitfalls01And02NothingOfAnEarlierAttemptReachesAProvider(t *testing.T) {
	bad, good := refuses("bad", 500), says("good")
	l := newLab(t, nil, bad, good, refuses("worse", 502))
	l.post(chatPath, `{"q":1}`, "x-script-path", "json", "x-script-order", "bad,worse~retry,good~retry",
		"x-forwarded-for", "203.0.113.9", "x-envoy-original-path", "/x")
	first, last := bad.seen.list()[0], good.seen.list()[0]
	if first.path != chatPath || first.length != 7 || first.header.Get("X-Key") != "first" {
		t.Errorf("first attempt: %+v", first)
	}
	if last.path != "/for/good~retry" || last.host != "good~retry.example" || last.header.Get("X-Key") != "good~retry" {
		t.Errorf("K-58: last attempt: %+v", last)
	}
	if !strings.HasPrefix(last.body, `{"for":"good~retry","exchange":"id-`) {
		t.Errorf("K-58: last attempt's body %q", last.body)
	}
	if last.length != int64(len(last.body)) { // a body that is put in anew loses its length
		t.Errorf("Pitfall 02: last attempt's body of %d bytes says that it has %d", len(last.body), last.length)
	}
	for _, s := range []seen{first, last} {
		for name := range s.header {
			n := strings.ToLower(name)
			if strings.HasPrefix(n, "x-envoy") || strings.HasPrefix(n, "x-forwarded") || strings.HasPrefix(n, "x-bardo") || n == "x-request-id" {
				t.Errorf("the provider sees %s: %s", n, s.header.Get(name))
			}
		}
	}
}

func TestLargeBodiesPassAndAreKeptForFurtherAttempts(t *testing.T) {
	big := strings.Repeat("x", 5<<20)
	bad := refuses("bad", 503)
	good := fake("good", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, big)
	})
	l := newLab(t, nil, bad, good)
	for _, tt := range []struct {
		name string
		size int
	}{{"just over 32 KiB", 32<<10 + 1}, {"1 MB", 1 << 20}, {"10 MB", 10 << 20}, {"32 MiB", 32 << 20}} {
		t.Run("K-50 "+tt.name, func(t *testing.T) {
			l := l.in(t)
			body := strings.Repeat("q", tt.size)
			a := l.post(chatPath, body, "x-script-path", "json", "x-script-order", "bad,good~retry,good")
			if a.status != 200 || len(a.body) != len(big) || a.err != nil {
				t.Errorf("answer is %d of %d bytes (%v)", a.status, len(a.body), a.err)
			}
			a = l.egress(chatPath, body, state.HeaderCluster, "good", state.HeaderExchange, secret+".id")
			if a.status != 200 || len(a.body) != len(big) || a.err != nil {
				t.Errorf("the sidecar's own call got %d of %d bytes (%v)", a.status, len(a.body), a.err)
			}
			got := bad.seen.list()
			if n := len(got[len(got)-1].body); n != tt.size {
				t.Errorf("the provider got %d bytes of %d", n, tt.size)
			}
			a = l.post(chatPath, body, "x-script-path", "json", "x-script-order", "bad,bad~retry,good")
			if a.status != 200 {
				t.Errorf("a third attempt answered %d", a.status)
			}
		})
	}
}

func TestAnAnswerTooLargeToHoldIsRefusedNotCut(t *testing.T) {
	l := newLab(t, func(s *state.State) { s.MaxAnswer, s.MaxBodyBytes = 1<<20, 1<<16 }, fake("big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Repeat("x", 3<<20))
	}))
	a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "big")
	if r := a.fault(t); a.status != 503 || r.Error.Code != "gateway_unavailable" {
		t.Errorf("answer is %d of %d bytes", a.status, len(a.body))
	}
	if why := l.sidecar.last().details; why != "response_payload_too_large" {
		t.Errorf("the sidecar is told %q", why)
	}
}

// TestASecondAttemptOfAPlainClusterKeepsTheBody shows that the router itself buffers for a retry, whatever the size.
func TestASecondAttemptOfAPlainClusterKeepsTheBody(t *testing.T) {
	good := says("good")
	l := newLab(t, nil, refuses("bad", 503), good)
	body := strings.Repeat("q", 10<<20)
	if a := l.post(chatPath, body, "x-script-path", "json", "x-script-order", "bad,good"); a.body != answered {
		t.Errorf("answer is %d %q", a.status, a.body)
	}
	if got := good.seen.list(); len(got) != 1 || got[0].body != body {
		t.Error("K-50: the second provider did not get the same body")
	}
}

func TestAStreamIsPassedOnEventByEvent(t *testing.T) {
	next := make(chan struct{})
	l := newLab(t, nil, fake("stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}))
	req := request(t, l.url+chatPath, "{}", "x-script-path", "json", "x-script-order", "stream")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 { // each event must arrive before the provider may send the next
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d is %q (%v)", i, lines.Text(), lines.Err())
		}
		lines.Scan()
		next <- struct{}{}
	}
}

func TestAClientThatLeavesTakesItsProviderCallAlong(t *testing.T) {
	left := make(chan struct{})
	l := newLab(t, nil, fake("stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	req := request(t, l.url+chatPath, "{}", "x-script-path", "json", "x-script-order", "stream")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case <-left:
	case <-time.After(polltest.Patience):
		t.Error("K-34: the provider still sends")
	}
}

func TestPitfall12TheSidecarLearnsAtOnceThatAProviderBrokeOff(t *testing.T) {
	l := newLab(t, nil, fake("stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	polltest.Soon(t, 700*time.Millisecond, "the end", func() time.Duration { // Envoy would wait a second for a client
		began := time.Now()
		a := l.egress(chatPath, "{}", state.HeaderCluster, "stream", state.HeaderExchange, secret+".id")
		if a.body != "data: 1\n\n" || a.err == nil {
			t.Errorf("answer is %q, %v", a.body, a.err)
		}
		return time.Since(began)
	})
}

func TestAClientThatDoesNotReadHoldsItsProviderBack(t *testing.T) {
	written := make(chan int, 1)
	l := newLab(t, nil, fake("endless", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		event := []byte("data: " + strings.Repeat("x", 16<<10) + "\n\n")
		for n := 0; ; n += len(event) {
			_ = out.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := w.Write(event); err != nil || n > 256<<20 {
				written <- n
				return
			}
		}
	}))
	req := request(t, l.url+chatPath, "{}", "x-script-path", "json", "x-script-order", "endless")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := <-written; n > 48<<20 {
		t.Errorf("the provider could send %d MiB", n>>20)
	}
}

func TestManyFailuresAtOnceAreAllRetried(t *testing.T) {
	l := newLab(t, nil, refuses("bad", 503), says("good"))
	const clients = 32
	answers := make(chan string, clients)
	for range clients {
		go func() {
			for range 8 {
				req := request(t, l.url+chatPath, "{}", "x-script-path", "json", "x-script-order", "bad,good~retry")
				answers <- do(t, http.DefaultTransport, req).body
			}
		}()
	}
	for range clients * 8 {
		if got := <-answers; got != answered {
			t.Fatalf("answer is %q", got)
		}
	}
}
