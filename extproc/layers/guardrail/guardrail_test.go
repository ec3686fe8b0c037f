package guardrail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// transport is a fake hook.
type transport func(*http.Request) string

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := f(r)
	if answer == "" {
		return nil, errors.New("nobody listens")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func exchange(t testing.TB) *pipeline.Exchange {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(`{"model":"m","messages":[{"role":"user","content":"one"},`+
		`{"role":"assistant","content":"two","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"three\"}"}}]},{"role":"tool","tool_call_id":"c","content":"four"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{ID: "req_1", Profile: pipeline.ProfileFast, Request: r, Principal: policy.Principal{Account: "key_1", Name: "n"}, Hints: policy.Hints{Subsystem: "risk"}}
}

func layer(h Hook, answer transport) Layer {
	h.Name, h.Path, h.Timeout, h.MaxBytes = "dlp", "/check", time.Second, max(h.MaxBytes, 1<<16)
	return Layer{Hooks: []Hook{h}, Client: &http.Client{Transport: answer}, Secret: func() string { return "s" }}
}

func TestAnAnswerOfAHookIsReadStrictly(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"action":"allow"}`:                                     "",
		`{"action":"allow","later":1}`:                           "",
		`{"action":"refuse","message":"no"}`:                     "",
		`{"action":"replace","texts":[{"index":1,"text":""}]}`:   "",
		`{"action":"replace"}`:                                   "",
		`{"action":"replace","texts":[{"index":2,"text":"x"}]}`:  "bad_replacement",
		`{"action":"replace","texts":[{"index":-1,"text":"x"}]}`: "bad_replacement",
		`{"action":"replace","texts":[{"text":"x"}]}`:            "bad_replacement",
		`{"action":"replace","texts":[{"index":0}]}`:             "bad_replacement",
		`{"action":"ALLOW"}`:                                     "bad_answer",
		`{"texts":[]}`:                                           "bad_answer",
		`{"action":1}`:                                           "bad_answer",
		`[]`:                                                     "bad_answer",
		``:                                                       "bad_answer",
	} {
		if _, why := readVerdict([]byte(body), 2); why != want {
			t.Errorf("%s: %q, want %q", body, why, want)
		}
	}
	v, _ := readVerdict([]byte(`{"action":"refuse","reason":"The secret is X","message":"`+strings.Repeat("é", 2000)+`"}`), 0)
	if v.Reason != "" || len(v.Message) > maxMessage {
		t.Errorf("reason %q, message of %d bytes", v.Reason, len(v.Message))
	}
}

func TestAHookIsCalledThroughEnvoy(t *testing.T) {
	t.Parallel()
	called := 0
	l := layer(Hook{Requests: true, Cluster: "guardrail.dlp", Host: "guard.example:9400"}, func(r *http.Request) string {
		called++
		if r.Host != "guard.example:9400" || r.URL.Path != "/check" || r.Header.Get(state.HeaderCluster) != "guardrail.dlp" || r.Header.Get(state.HeaderExchange) != "s.req_1" || r.Header.Get("Authorization") != "" {
			t.Errorf("called as %s %s %v", r.Host, r.URL, r.Header)
		}
		return `{"action":"allow","reason":"clean"}`
	})
	x := exchange(t)
	before := x.Request
	if err := pipeline.New(l).Request(t.Context(), x); err != nil || called != 1 || x.Request != before || x.Watched() || x.WholeAnswer || !l.Waits(x) {
		t.Errorf("%v, called %d times", err, called)
	}
	if want := (policy.Tag{By: Name, Rule: "dlp", Stage: policy.StageRequest, Decision: policy.DecisionAllowed, Reason: "clean"}); !slices.Equal(x.Tags, []policy.Tag{want}) {
		t.Errorf("%+v", x.Tags)
	}
}

func TestReplacedTextsOfARequestKeepTheirTypes(t *testing.T) {
	t.Parallel()
	l := layer(Hook{Requests: true}, func(r *http.Request) string {
		b, _ := io.ReadAll(r.Body)
		for i, want := range []string{`"role":"user","kind":"user","text":"one"`, `"role":"assistant","kind":"assistant","text":"two"`, `"kind":"arguments"`, `"role":"tool","kind":"result","text":"four"`} {
			if !strings.Contains(string(b), fmt.Sprintf(`{"index":%d,`, i)) || !strings.Contains(string(b), want) {
				t.Errorf("the hook gets %s, without %s", b, want)
			}
		}
		return `{"action":"replace","texts":[{"index":0,"text":"1 \"q\""},{"index":2,"text":"{\"a\":3}"},{"index":3,"text":""}]}`
	})
	x := exchange(t)
	if err := pipeline.New(l).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","messages":[{"role":"user","content":"1 \"q\""},{"role":"assistant","content":"two","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":3}"}}]},{"role":"tool","tool_call_id":"c","content":""}]}`
	if got := string(x.Request.Doc.Bytes); got != want || x.Tags[0].Decision != policy.DecisionReplaced {
		t.Errorf("the request is\n%s\nwant\n%s", got, want)
	}
}

func TestWhoseRequestsAHookSees(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		hook  Hook
		op    chat.Op
		class policy.SecurityClass
		asked bool
		err   fault.Kind
	}{
		{Hook{}, chat.Generate, 0, true, ""},
		{Hook{}, chat.CountTokens, 0, true, ""},
		{Hook{}, chat.Embed, 0, true, ""},
		{Hook{}, chat.Modality, 0, true, ""},
		{Hook{Keys: rule.Names{"other"}}, chat.Embed, 0, false, ""},
		{Hook{}, chat.Embed, policy.SecurityPrivate, false, fault.GuardrailRefused},
		{Hook{Profiles: []string{"fast"}}, chat.Generate, 0, true, ""},
		{Hook{Profiles: []string{"full"}}, chat.Generate, 0, false, ""},
		{Hook{Subsystems: rule.Names{"ri*"}, Keys: rule.Names{"key_1"}}, chat.Generate, 0, true, ""},
		{Hook{Keys: rule.Names{"other"}}, chat.Generate, 0, false, ""},
		{Hook{}, chat.Generate, policy.SecurityConfidential, true, ""},
		{Hook{}, chat.Generate, policy.SecurityPrivate, false, fault.GuardrailRefused},
		{Hook{OnError: Allow}, chat.Generate, policy.SecurityPrivate, false, ""},
		{Hook{Shadow: true}, chat.Generate, policy.SecurityPrivate, false, ""},
		{Hook{Private: true}, chat.Generate, policy.SecurityPrivate, true, ""},
	} {
		asked := false
		row.hook.Requests = true
		x := exchange(t)
		x.Request.Op, x.Hints.SecurityClass = row.op, row.class
		err := pipeline.New(layer(row.hook, func(*http.Request) string {
			asked = true
			return `{"action":"allow"}`
		})).Request(t.Context(), x)
		if asked != row.asked || (err != nil) != (row.err != "") || err != nil && fault.From(err).Kind != row.err {
			t.Errorf("%+v, op %d, %s: asked %v, %v", row.hook, row.op, row.class, asked, err)
		}
	}
	x := exchange(t)
	x.Intent.Security = policy.SecurityPrivate
	if (&Hook{}).maySee(x) || !(&Hook{Private: true}).maySee(x) {
		t.Error("a hook that is not private sees a request that is private by its intent, or one that is does not")
	}
	for _, tier := range []policy.PrivacyTier{policy.PrivacyNoLog, policy.PrivacyTEE, policy.PrivacyEndToEnd} {
		x = exchange(t)
		x.Intent.PrivacyTier = tier
		if (&Hook{}).maySee(x) || !(&Hook{Private: true}).maySee(x) {
			t.Errorf("a hook that is not private sees a request of tier %s, or one that is does not", tier)
		}
	}
	if (Layer{Hooks: []Hook{{Requests: true}}}).Applies(x) {
		t.Error("a hook without a way to it applies")
	}
}

// answerOf passes the events of an answer through the layer, and returns the resulting events.
func answerOf(t testing.TB, x *pipeline.Exchange, events []chat.Event) (out []chat.Event, err error) {
	t.Helper()
	for i := range events {
		passed, err := x.Response(t.Context(), &events[i])
		if err != nil {
			return out, err
		}
		if len(passed) > 0 && events[i].Kind != chat.End {
			t.Errorf("event %d passes before the answer is complete", i)
		}
		out = append(out, passed...)
	}
	return out, nil
}

func theAnswer() []chat.Event {
	return []chat.Event{
		{Kind: chat.Start, ID: "a", Raw: []byte("raw 1")},
		{Kind: chat.Thought, Text: []byte("hm"), Raw: []byte("raw 2")},
		{Kind: chat.Signature, Text: []byte("sig"), Tail: true},
		{Kind: chat.BlockStop, Tail: true},
		{Kind: chat.Other, Raw: []byte("ping")},
		{Kind: chat.Text, Index: 1, Text: []byte("a sec"), Raw: []byte("raw 3")},
		{Kind: chat.Text, Index: 1, Text: []byte("ret"), Raw: []byte("raw 4")},
		{Kind: chat.Extra, Index: 1, ID: "annotations", Text: []byte("{}")},
		{Kind: chat.BlockStop, Index: 1},
		{Kind: chat.ToolStart, Index: 2, Tool: chat.ToolCall{Name: "f"}},
		{Kind: chat.ToolArgs, Index: 2, Text: []byte(`{"a":1}`)},
		{Kind: chat.BlockStop, Index: 2},
		{Kind: chat.Stop, Reason: chat.StopTool},
		{Kind: chat.UsageInfo},
		{Kind: chat.End, Raw: []byte("done")},
	}
}

func TestAnAllowedAnswerIsUnchanged(t *testing.T) {
	t.Parallel()
	l := layer(Hook{Responses: true}, func(r *http.Request) string {
		b, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(b), `"texts":[{"index":0,"role":"assistant","kind":"thinking","text":"hm"},{"index":1,"role":"assistant","kind":"assistant","text":"a secret"},{"index":2,"role":"assistant","kind":"arguments","tool":"f","text":"{\"a\":1}"}]`) {
			t.Errorf("the hook gets %s", b)
		}
		return `{"action":"allow"}`
	})
	x := exchange(t)
	if err := pipeline.New(l).Request(t.Context(), x); err != nil || !x.WholeAnswer || l.Waits(x) {
		t.Fatal(err)
	}
	for range 2 { // a second attempt
		out, err := answerOf(t, x, theAnswer())
		if err != nil || len(out) != len(theAnswer()) || len(x.Tags) != 1 {
			t.Fatalf("%v, %d events, %+v", err, len(out), x.Tags)
		}
		for i, ev := range theAnswer() {
			if out[i].Kind != ev.Kind || !bytes.Equal(out[i].Raw, ev.Raw) || !bytes.Equal(out[i].Text, ev.Text) || out[i].Tail != ev.Tail {
				t.Errorf("event %d is %+v", i, out[i])
			}
		}
	}
}

func TestReplacedTextsOfAnAnswer(t *testing.T) {
	t.Parallel()
	for texts, want := range map[string]string{
		`[{"index":1,"text":"nothing"}]`:                  "2:hm 3:sig 8 1:nothing 8 6 7:{\"a\":1} 8 9 10 12",
		`[{"index":0,"text":""},{"index":2,"text":"{}"}]`: "1:a sec 1:ret 14:{} 8 6 7:{} 8 9 10 12",
		`[{"index":1,"text":""}]`:                         "2:hm 3:sig 8 1 8 6 7:{\"a\":1} 8 9 10 12",
		`[{"index":0,"text":"another thought"}]`:          "",
	} {
		x := exchange(t)
		l := layer(Hook{Responses: true}, func(*http.Request) string { return `{"action":"replace","texts":` + texts + `}` })
		if err := pipeline.New(l).Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		out, err := answerOf(t, x, theAnswer())
		if want == "" {
			if f := fault.From(err); err == nil || f.Kind != fault.GuardrailDown || x.Tags[0].Reason != "bad_replacement" {
				t.Errorf("%s: %v, %+v", texts, err, x.Tags)
			}
			continue
		}
		var got []string
		for _, ev := range out[1:] {
			if ev.Raw != nil || ev.Tail {
				t.Errorf("%s: %+v keeps the provider's bytes", texts, ev)
			}
			s := fmt.Sprint(ev.Kind)
			if len(ev.Text) > 0 {
				s += ":" + string(ev.Text)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); err != nil || s != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", texts, err, s, want)
		}
	}
}

// TestARefusalIsNotLogged: a hook's message is for the client only.
func TestARefusalIsNotLogged(t *testing.T) {
	t.Parallel()
	x := exchange(t)
	err := pipeline.New(layer(Hook{Requests: true}, func(*http.Request) string { return `{"action":"refuse","message":"it says one"}` })).Request(t.Context(), x)
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != fault.GuardrailRefused || !strings.Contains(f.Public, "it says one") || strings.Contains(err.Error(), "it says one") {
		t.Errorf("%v", err)
	}
}

// FuzzVerdict: any answer of a hook is a verdict about its texts, or an error.
func FuzzVerdict(f *testing.F) {
	f.Add([]byte(`{"action":"replace","reason":"x","texts":[{"index":1,"text":"y"}]}`), 2)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n = min(max(n, 0), 100)
		v, why := readVerdict(b, n)
		if (v == nil) != (why != "") {
			t.Fatal(v, why)
		}
		if v == nil {
			return
		}
		for _, r := range v.Texts {
			if v.Action == actionReplace && (*r.Index < 0 || *r.Index >= n || r.Text == nil) {
				t.Fatalf("%+v", r)
			}
		}
		if len(v.Message) > maxMessage || len(v.Reason) > 64 {
			t.Fatal(len(v.Message), len(v.Reason))
		}
	})
}
