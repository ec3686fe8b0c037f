package venice_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// TestAClientsOwnParametersAreKept: parameters that a client of this format sets are not overridden.
func TestAClientsOwnParametersAreKept(t *testing.T) {
	const usual = `"include_venice_system_prompt":false,"enable_web_search":"off","enable_web_citations":false`
	for _, r := range []struct{ about, own, want string }{
		{"nothing", ``, `{` + usual + `}`},
		{"a search", `"venice_parameters":{"enable_web_search":"auto", "enable_web_citations":true},`, `{"include_venice_system_prompt":false,"enable_web_search":"auto","enable_web_citations":true}`},
		{"one that the gateway does not know", `"venice_parameters":{"min_temp":0.1},`, `{` + usual + `,"min_temp":0.1}`},
		{"nothing in front of its own instructions", `"venice_parameters":{"no_system_prompt":true},`, `{` + usual + `,"no_system_prompt":true}`},
		{"no object", `"venice_parameters":7,`, `{` + usual + `}`},
		{"nothing in it", `"venice_parameters":{},`, `{` + usual + `}`},
	} {
		t.Run(r.about, func(t *testing.T) {
			req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{`+r.own+`"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(read(t, req, policy.Resolution{Model: "m"}).Get("venice_parameters").Raw); got != r.want {
				t.Errorf("it is wrote %s, want %s", got, r.want)
			}
		})
	}
}

// TestAnEnclaveIsAModelOfItsOwn: the name gets the suffix -tee once, if the model is known to run in an enclave.
func TestAnEnclaveIsAModelOfItsOwn(t *testing.T) {
	attested := []policy.Feature{policy.TEEAttested}
	for _, r := range []struct {
		about    string
		tee      bool
		to       policy.Resolution
		want     string
		degraded string
	}{
		{"not asked for", false, policy.Resolution{Upstream: "m", Features: attested}, "m", ""},
		{"asked for", true, policy.Resolution{Upstream: "m", Features: attested}, "m-tee", ""},
		{"asked for by its own name", true, policy.Resolution{Upstream: "m-tee", Features: attested}, "m-tee", ""},
		{"not to be had", true, policy.Resolution{Upstream: "m"}, "m", "tee_mode"},
	} {
		t.Run(r.about, func(t *testing.T) {
			req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Profile = &chat.Profile{Default: chat.Params{TEE: r.tee}}
			call, err := venice.Adapter{}.Encode(nil, req, r.to, provider.Endpoint{})
			if err != nil {
				t.Fatal(err)
			}
			if name, _ := read(t, req, r.to).Get("model").Str(); name != r.want || strings.Join(call.Degraded, ",") != r.degraded {
				t.Errorf("%s is asked, and %v lost; want %s and %q", name, call.Degraded, r.want, r.degraded)
			}
		})
	}
}

// read parses the body of the call.
func read(t *testing.T, req *chat.Request, to policy.Resolution) *jsonx.Doc {
	t.Helper()
	call, err := venice.Adapter{}.Encode(nil, req, to, provider.Endpoint{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		t.Fatalf("%v: %s", err, call.Body)
	}
	return &doc
}

// FuzzParameters: whatever venice_parameters a client sends, the provider receives a valid request with the gateway's values for the
// parameters that the client does not set.
func FuzzParameters(f *testing.F) {
	for _, own := range []string{`{}`, `{"enable_web_search":"on"}`, `[1]`, `{"a\"b":{"c":[]}}`, `null`, `""`} {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, own string) {
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"venice_parameters":`+own+`,"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			return // not JSON, and refused
		}
		p := read(t, req, policy.Resolution{Model: "m"}).Get("venice_parameters")
		if p.Kind() != jsonx.Object || !p.Get("include_venice_system_prompt").Exists() {
			t.Errorf("it is wrote %s", p.Raw)
		}
	})
}
