package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// lab is one gateway before providers of every dialect, with models for every run.
type lab struct {
	gateway *gateway.Gateway
	fakes   map[fake.Dialect]*fake.Server
	keys    map[int]string // that the gateway refuses with this status
}

// settings are the gateway's: time enough for a machine that is busy, and heartbeats that come often.
var settings = "limits: {rpm: 0}\nrouting: {ping_interval: 1h, timeouts: {first_token: 20s, idle: 20s, heartbeat: " + beat.String() + "}}\n"

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{fakes: make(map[fake.Dialect]*fake.Server, 3)}
	o := gateway.Options{Config: settings}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		first, second := l.provider(t, d, "p-", runs(d), nil), l.provider(t, d, "q-", runs(d), twice)
		l.fakes[d] = first.Fake
		o.Providers = append(o.Providers, first, second)
	}
	l.gateway = gateway.Run(t, o)
	poor := l.gateway.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001")
	reader := l.gateway.CreateKey(t, "--name", "reader", "--read-only")
	l.keys = map[int]string{401: "bardo_sk_wrong", 402: poor.Key, 403: reader.Key}
	return l
}

// runs are all runs whose models a provider of this dialect has.
func runs(d fake.Dialect) []target {
	var rs []target
	for _, c := range clients {
		for _, r := range c.targets() {
			if r.served == d {
				rs = append(rs, r)
			}
		}
	}
	return rs
}

// provider has the models of these runs, those of some behaviours alone if they are given.
func (l *lab) provider(t *testing.T, d fake.Dialect, prefix string, runs []target, some []string) gateway.Provider {
	t.Helper()
	f := fake.Start(t, fake.Config{Dialect: d, Name: prefix + string(d)})
	p := gateway.Provider{ID: prefix + family(d), Fake: f, Format: string(d)}
	if d == fake.OpenAI {
		p.More = "responses: true"
	}
	for _, r := range runs {
		for name, b := range behaviours {
			if some != nil && !slices.Contains(some, name) {
				continue
			}
			f.BehaveFor(r.model(name), b)
			if !r.direct {
				p.Models = append(p.Models, gateway.Model{ID: r.model(name), Price: "{input: 1, output: 2}"})
			}
		}
	}
	return p
}

// environment is what a driver is told.
func (l *lab) environment(r target) []string {
	text, _ := json.Marshal(said) // a string always encodes
	env := []string{
		"BARDO_CLIENT=" + r.client.name, "BARDO_PREFIX=" + r.prefix(), "BARDO_UNICODE=" + string(text),
	}
	if f := l.fakes[r.served]; r.direct {
		env = append(env, "BARDO_DIRECT=1", "BARDO_URL="+strings.TrimSuffix(strings.TrimSuffix(f.URL, "/v1"), "/v1beta"), "BARDO_KEY="+f.Key)
		if r.served != fake.Gemini { // Google says 400 for a wrong key
			env = append(env, "BARDO_KEY_401=wrong")
		}
		return env
	}
	for status, key := range l.keys {
		env = append(env, "BARDO_KEY_"+strconv.Itoa(status)+"="+key)
	}
	return append(env, "BARDO_URL="+l.gateway.URL, "BARDO_KEY="+l.gateway.Key)
}

// witness checks what a run's provider saw of it.
func (l *lab) witness(t *testing.T, r target, rep report) {
	t.Helper()
	f := l.fakes[r.served]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := f.WaitLeft(ctx, r.model("slow"), 1); err != nil {
		t.Errorf("K-34: the provider was not told that the client left: %v", err)
	}
	asked := map[string][][]byte{}
	for _, q := range f.Generations() {
		asked[q.Model] = append(asked[q.Model], q.Body)
	}
	if !slices.ContainsFunc(asked[r.model("unicode")], func(b []byte) bool { return says(b, said) }) {
		t.Errorf("the provider was not asked with this text: %q", said)
	}
	if _, ran := rep.cases["files"]; ran && !slices.ContainsFunc(asked[r.model("files")], hasFiles) {
		t.Errorf("the provider saw no image, or no document: %.2000s", asked[r.model("files")])
	}
	if !slices.ContainsFunc(asked[r.model("large")], func(b []byte) bool { return len(b) >= 2<<20 }) {
		t.Error("the provider saw no request of 2 MiB")
	}
	if !slices.ContainsFunc(asked[r.model("loop")], func(b []byte) bool { return bytes.Contains(b, []byte("sunny")) }) {
		t.Error("the provider saw no result of a tool")
	}
}

// hasFiles reports whether a PNG and a PDF are in a request.
func hasFiles(body []byte) bool { return says(body, "iVBORw0KGgo") && says(body, "JVBERi0xLjQK") }

// says reports whether a text is in a string anywhere in a JSON document.
func says(doc []byte, text string) bool {
	var v any
	return json.Unmarshal(doc, &v) == nil && holds(v, text)
}

func holds(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return holds(e, text) })
	case map[string]any:
		for _, e := range v {
			if holds(e, text) {
				return true
			}
		}
	}
	return false
}
