package openrouter_test

import (
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

func encode(t *testing.T, own string, p *chat.Profile, to policy.Resolution, at provider.Endpoint) *jsonx.Doc {
	t.Helper()
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{`+own+`"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Profile = p
	call, err := openrouter.Adapter{}.Encode(nil, req, to, at)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		t.Fatalf("%v: %s", err, call.Body)
	}
	return &doc
}

// TestR22PrecedenceOfHostPreferences: the client's preferences override the operator's, a confidential prompt overrides both, and a suffix
// is set only if neither has preferences.
func TestR22PrecedenceOfHostPreferences(t *testing.T) {
	cheap, fast := &chat.Profile{CostSensitivity: 0.8}, &chat.Profile{CostSensitivity: 0.3, MaxLatency: 2 * time.Second}
	secret := &chat.Profile{Confidential: true, CostSensitivity: 0.9}
	for _, r := range []struct {
		about, own, operator string
		profile              *chat.Profile
		upstream             string
		model, hosts         string
	}{
		{"nobody", "", "", nil, "a/m", "a/m", ""},
		{"the cost matters", "", "", cheap, "a/m", "a/m:floor", ""},
		{"time matters", "", "", fast, "a/m", "a/m:nitro", ""},
		{"both: the cost", "", "", &chat.Profile{CostSensitivity: 0.9, MaxLatency: time.Second}, "a/m", "a/m:floor", ""},
		{"a long time is no matter", "", "", &chat.Profile{MaxLatency: time.Minute}, "a/m", "a/m", ""},
		{"the name has a suffix", "", "", cheap, "a/m:free", "a/m:free", ""},
		{"the operator sorts", "", `{"sort":"latency"}`, cheap, "a/m", "a/m", `{"sort":"latency"}`},
		{"the client sorts", `"provider":{"sort":"price"},`, `{"sort":"latency","zdr":true}`, cheap, "a/m", "a/m", `{"zdr":true,"sort":"price"}`},
		{"confidential", "", "", secret, "a/m", "a/m:floor", `{"data_collection":"deny","zdr":true}`},
		{"confidential, whatever others say", `"provider":{"data_collection":"allow","only":["x"]},`, `{"zdr":false}`, secret, "a/m", "a/m", `{"only":["x"],"data_collection":"deny","zdr":true}`},
		{"no object", `"provider":7,`, "", nil, "a/m", "a/m", "7"},
	} {
		t.Run(r.about, func(t *testing.T) {
			doc := encode(t, r.own, r.profile, policy.Resolution{Upstream: r.upstream}, provider.Endpoint{Preferences: []byte(r.operator)})
			if name, _ := doc.Get("model").Str(); name != r.model {
				t.Errorf("%s is asked, want %s", name, r.model)
			}
			if got := string(doc.Get("provider").Raw); got != r.hosts {
				t.Errorf("the hosts are %s, want %s", got, r.hosts)
			}
		})
	}
}

func TestItsOwnFallbacks(t *testing.T) {
	at := provider.Endpoint{Fallbacks: []string{"a/one", "b/two"}}
	for own, want := range map[string]string{``: `["a/one","b/two"]`, `"models":["c/three"],`: `["c/three"]`} {
		if got := string(encode(t, own, nil, policy.Resolution{Upstream: "a/m"}, at).Get("models").Raw); got != want {
			t.Errorf("%s: it may answer with %s, want %s", own, got, want)
		}
	}
}

// TestCostOfAnAnswer: the cost is read from the usage, at the end of a stream and in a JSON body.
func TestCostOfAnAnswer(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"cost":%s}`
	for _, r := range []struct {
		cost string
		want policy.Pico
	}{{"0.00042", 420_000_000}, {"1.5e-05", 15_000_000}, {"null", 0}, {`"much"`, 0}, {"-1", 0}} {
		usageJSON := strings.Replace(usage, "%s", r.cost, 1)
		for stream, body := range map[bool]string{
			false: `{"id":"g","object":"chat.completion","model":"a/m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` + usageJSON + `}`,
			true: ": OPENROUTER PROCESSING\n\ndata: {\"id\":\"g\",\"object\":\"chat.completion.chunk\",\"model\":\"a/m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n" +
				"data: {\"id\":\"g\",\"object\":\"chat.completion.chunk\",\"model\":\"a/m\",\"choices\":[]," + usageJSON + "}\n\ndata: [DONE]\n\n",
		} {
			kind := "application/json"
			if stream {
				kind = "text/event-stream"
			}
			req := &chat.Request{Dialect: chat.OpenAI, Stream: stream, StreamUsage: true, Choices: 1}
			dec := openrouter.Adapter{}.NewDecoder(req, policy.Resolution{}, provider.Endpoint{}, 200, header.List{{Name: "content-type", Value: kind}})
			var total chat.Usage
			for _, ev := range dec.Decode([]byte(body), true) {
				if ev.Kind == chat.UsageInfo {
					total.Merge(ev.Usage)
				}
			}
			if total.Cost != r.want || total.Output != 2 {
				t.Errorf("stream=%v: a cost of %s is read as %s, and %d tokens", stream, r.cost, total.Cost, total.Output)
			}
		}
	}
}
