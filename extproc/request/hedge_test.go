package request

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire"
	messages "bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// hedgeable returns the view of a request that is hedged.
func hedgeable(t *testing.T, d wire.Dialect, body string) *View {
	t.Helper()
	at := func(id policy.ProviderID) *runtime.Provider {
		p := &runtime.Provider{Adapter: custom.Adapter{}}
		p.Endpoint.Provider, p.Endpoint.Dialect, p.Endpoint.Responses = id, chat.OpenAI, true
		return p
	}
	v := &View{Config: &runtime.Config{
		Hedging: runtime.Hedging{After: time.Second, SharePct: 5}, MaxRetries: 3,
		Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{
			"a": at("a"), "b": at("b"), "vendor": {Adapter: anthropic.Adapter{}}, "paid": {Adapter: custom.Adapter{}, Payer: payer{}},
		}),
	}}
	var err error
	if v.Request, err = d.Decode(chat.Generate, nil, "", []byte(body)); err != nil {
		t.Fatal(err)
	}
	v.Order = []policy.Resolution{{Provider: "a", Model: "m"}, {Provider: "a", Model: "n"}, {Provider: "b", Model: "m"}}
	return v
}

const plainChat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// TestWhichRequestsAreHedged: those that may run twice, at the next candidate of another provider.
func TestWhichRequestsAreHedged(t *testing.T) {
	for _, row := range []struct {
		about  string
		change func(*View)
		want   int
	}{
		{"usual", func(*View) {}, 2},
		{"off", func(v *View) { v.Config.Hedging.After = 0 }, 0},
		{"no further attempts", func(v *View) { v.Config.MaxRetries = 0 }, 0},
		{"one provider", func(v *View) { v.Order = v.Order[:2] }, 0},
		{"one candidate", func(v *View) { v.Order = v.Order[:1] }, 0},
		{"deferred", func(v *View) { v.Deferred = true }, 0},
		{"the user's own key", func(v *View) { v.OwnKey = OwnKey{Provider: "a", Key: secret.New("k")} }, 0},
		{"a direct key", func(v *View) { v.DirectKey = true }, 0},
		{"a direct key of a later candidate", func(v *View) { v.CallersKey = true }, 0},
		{"paid by a payment", func(v *View) { v.PaysItself = true }, 0},
		{"a provider that is paid by call", func(v *View) { v.Order[2].Provider = "paid" }, 0},
		{"a stored resource", func(v *View) { v.NamesStored = true }, 0},
		{"embeddings", func(v *View) { v.Request.Op = chat.Embed }, 0},
		{"a count of tokens", func(v *View) { v.Request.Op = chat.CountTokens }, 0},
		{"a profile that searches", func(v *View) {
			search := true
			v.Request.Profile = &chat.Profile{}
			v.Request.Profile.Default.WebSearch = &search
		}, 0},
	} {
		v := hedgeable(t, openai.Dialect{}, plainChat)
		if row.change(v); v.HedgeAt() != row.want {
			t.Errorf("%s: %d, want %d", row.about, v.HedgeAt(), row.want)
		}
	}
}

// TestRequestsWithEffectsAreNotHedged, in each format: stored ones, tools that the provider runs, and answers that are not text.
func TestRequestsWithEffectsAreNotHedged(t *testing.T) {
	const chatStart, input = `{"model":"m","messages":[{"role":"user","content":"hi"}],`, `{"model":"m","input":"hi",`
	const claude = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],`
	const google = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],`
	o, r, c, g := openai.Dialect{}, responses.Dialect{}, messages.Dialect{}, gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", "")
	for _, row := range []struct {
		d    wire.Dialect
		body string
		want bool
	}{
		{o, chatStart + `"tools":[{"type":"function","function":{"name":"f"}}]}`, true},
		{o, chatStart + `"store":false,"modalities":null}`, true},
		{o, chatStart + `"store":true}`, false},
		{o, chatStart + `"web_search_options":{}}`, false},
		{o, chatStart + `"plugins":[{"id":"web"}]}`, false},
		{o, chatStart + `"modalities":["text","audio"],"audio":{"voice":"alloy","format":"mp3"}}`, false},
		{o, chatStart + `"tools":[{"type":"function","function":{"name":"f"}},{"type":"openrouter:web_search"}]}`, false},
		{r, input + `"store":false}`, true},
		{r, input + `"store":true}`, false},
		{r, `{"model":"m","input":"hi"}`, false}, // stored unless it says otherwise
		{r, input + `"store":false,"background":true}`, false},
		{r, input + `"store":false,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}`, true},
		{r, input + `"store":false,"tools":[{"type":"web_search"}]}`, false},
		{r, input + `"store":false,"tools":[{"type":"mcp","server_label":"s","server_url":"https://example.com"}]}`, false},
		{r, input + `"store":false,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`, false},
		{r, input + `"store":false,"previous_response_id":"resp_1"}`, false},
		{c, claude + `"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, true},
		{c, claude + `"tools":[{"type":"custom","name":"f","input_schema":{"type":"object"}}]}`, true},
		{c, claude + `"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, false},
		{c, claude + `"tools":[{"type":"code_execution_20250825","name":"code_execution"}]}`, false},
		{c, claude + `"mcp_servers":[{"type":"url","url":"https://example.com","name":"x"}]}`, false},
		{c, claude + `"container":"c"}`, false},
		{g, google + `"tools":[{"functionDeclarations":[{"name":"f"}]}]}`, true},
		{g, google + `"tools":[{"function_declarations":[{"name":"f"}]}]}`, true},
		{g, google + `"tools":[{"googleSearch":{}}]}`, false},
		{g, google + `"tools":[{"functionDeclarations":[{"name":"f"}],"codeExecution":{}}]}`, false},
		{g, google + `"tools":[{}]}`, false},
		{g, google + `"generationConfig":{"responseModalities":["IMAGE"]}}`, false},
		{g, google + `"cachedContent":"cachedContents/1"}`, false},
	} {
		if v := hedgeable(t, row.d, row.body); (v.HedgeAt() > 0) != row.want {
			t.Errorf("%s: hedged %v", row.body, !row.want)
		}
	}
}
