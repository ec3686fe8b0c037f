package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// response is a Responses object as its client reads it.
type response struct {
	ID, Object, Status, Model string
	IncompleteDetails         *struct{ Reason string } `json:"incomplete_details"`
	Output                    []outputItem
	Usage                     struct {
		Input        int `json:"input_tokens"`
		Output       int `json:"output_tokens"`
		Total        int `json:"total_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
}

type outputItem struct {
	ID, Type, Status, Role string
	CallID                 string `json:"call_id"`
	Name, Arguments, Input string
	Encrypted              string `json:"encrypted_content"`
	Content, Summary       []struct{ Type, Text string }
	raw                    json.RawMessage
}

// UnmarshalJSON keeps the item as it came, to be sent back.
func (o *outputItem) UnmarshalJSON(b []byte) error {
	type plain outputItem
	o.raw = append(o.raw[:0], b...)
	return json.Unmarshal(b, (*plain)(o))
}

func (r response) text() string {
	var b strings.Builder
	for _, o := range r.Output {
		if o.Type == "message" {
			for _, c := range o.Content {
				b.WriteString(c.Text)
			}
		}
	}
	return b.String()
}

// calls are the calls that a response makes.
func (r response) calls() (calls []outputItem) {
	for _, o := range r.Output {
		if strings.HasSuffix(o.Type, "_call") {
			calls = append(calls, o)
		}
	}
	return calls
}

// respond asks for a response and reads it, whole or streamed.
func respond(t testing.TB, g *gateway.Gateway, stream bool, body string, header ...string) (response, gateway.Answer) {
	t.Helper()
	if stream {
		body = strings.TrimSuffix(body, "}") + `,"stream":true}`
	}
	got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: body, Header: header})
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
	}
	if stream {
		return streamed(t, got), got
	}
	var r response
	got.JSON(t, &r)
	if r.Object != "response" || !strings.HasPrefix(r.ID, "resp_") {
		t.Errorf("no response: %s", got.Body)
	}
	return r, got
}

// streamed reads a stream: numbered events whose text is that of the response, which comes last and right behind the summary.
func streamed(t testing.TB, got gateway.Answer) response {
	t.Helper()
	var last struct {
		Type     string
		Response response
	}
	var text strings.Builder
	number, summary := 0, false
	for _, ev := range got.Events(t) {
		if ev.Comment != "" {
			summary = strings.HasPrefix(ev.Comment, "bardo ")
			continue
		}
		var e struct {
			Type   string
			Number int `json:"sequence_number"`
			Delta  string
		}
		if err := json.Unmarshal([]byte(ev.Data), &e); err != nil || e.Type != ev.Name || e.Number != number {
			t.Fatalf("event %d is %+v: %v", number, ev, err)
		}
		if e.Type == "response.output_text.delta" {
			text.WriteString(e.Delta)
		}
		number++
		if strings.HasPrefix(e.Type, "response.completed") || e.Type == "response.incomplete" {
			if !summary {
				t.Errorf("the summary does not stand before %s: %s", e.Type, got.Body)
			}
			if err := json.Unmarshal([]byte(ev.Data), &last); err != nil {
				t.Fatal(err)
			}
		} else if last.Type != "" {
			t.Errorf("%s after the end", ev.Name)
		}
		summary = false
	}
	if last.Type == "" {
		t.Fatalf("the stream does not end: %s", got.Body)
	}
	if whole := last.Response.text(); whole != text.String() {
		t.Errorf("the pieces say %q, the response %q", text.String(), whole)
	}
	return last.Response
}

// responders is a gateway with a model for each kind of provider: chat, claude and responses, after the provider that it is at.
func responders(t *testing.T) (g *gateway.Gateway, fakes map[string]*fake.Server) {
	t.Helper()
	fakes = map[string]*fake.Server{}
	o := gateway.Options{Config: quick}
	for _, p := range []struct {
		id     string
		format fake.Dialect
		more   string
	}{{"chat", fake.OpenAI, ""}, {"claude", fake.Anthropic, ""}, {"responses", fake.OpenAI, "responses: true"}} {
		fakes[p.id] = fake.Start(t, fake.Config{Dialect: p.format, Name: p.id})
		o.Providers = append(o.Providers, gateway.Provider{
			ID: p.id, Fake: fakes[p.id], Format: string(p.format), Models: models(p.id, "up-"+p.id), More: p.more,
		})
	}
	return gateway.Run(t, o), fakes
}

// everywhere runs a test for each kind of provider, whole and streamed.
func everywhere(t *testing.T, test func(t *testing.T, model string, stream bool)) {
	t.Helper()
	for _, model := range []string{"chat", "claude", "responses"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", model, stream), func(t *testing.T) { test(t, model, stream) })
		}
	}
}

// TestResponsesOverEveryProvider: text, usage and cost, whole and streamed; where the provider speaks Responses, its own bytes pass.
func TestResponsesOverEveryProvider(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for _, f := range fakes {
		f.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Cached: 200, Output: 500}})
	}
	everywhere(t, func(t *testing.T, model string, stream bool) {
		t.Helper()
		r, got := respond(t, g, stream, fmt.Sprintf(`{"model":%q,"instructions":"Be brief.","input":"hi","max_output_tokens":50}`, model))
		if r.text() != "Hello from the fake provider." || r.Status != "completed" || r.Model != model {
			t.Errorf("%+v", r)
		}
		if r.Usage.Input != 1200 || r.Usage.InputDetails.Cached != 200 || r.Usage.Output != 500 || r.Usage.Total != 1700 {
			t.Errorf("usage %+v", r.Usage)
		}
		rec := recordOf(t, g, got)
		if rec.Status != "ok" || rec.Provider != model || rec.InputTokens != 1200 || rec.OutputTokens != 500 {
			t.Errorf("record %+v", rec)
		}
		if told, err := strconv.ParseFloat(got.Header.Get("X-Bardo-Cost"), 64); !stream && (err != nil || told != rec.CostUSD) || rec.CostUSD == 0.0 {
			t.Errorf("cost %v, header %q", rec.CostUSD, got.Header.Get("X-Bardo-Cost"))
		}
		last, _ := fakes[model].Last()
		if native := strings.HasSuffix(last.Path, "/responses"); native != (model == "responses") || !strings.Contains(string(last.Body), "up-"+model) {
			t.Errorf("asked %s with %s", last.Path, last.Body)
		}
	})
	g.AssertSound(t)
}

// TestResponsesToolLoop: calls come out, go back as items with their outputs, and the answer follows; a custom tool gets text.
func TestResponsesToolLoop(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for name, f := range fakes {
		patch := fake.ToolCall{Name: "apply_patch", Args: `{"input":"*** Begin Patch\n"}`, Pieces: 3}
		if name == "responses" {
			patch.Args = "*** Begin Patch\n"
		}
		f.Behave(fake.Behaviour{
			Text: "Let me see.", ToolCalls: []fake.ToolCall{{Name: "get_weather", Args: `{"city":"Paris"}`, Pieces: 2}, patch},
			Answered: &fake.Behaviour{Text: "It is sunny."},
		})
	}
	const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":false},` +
		`{"type":"custom","name":"apply_patch","description":"Edits."}]`
	everywhere(t, func(t *testing.T, model string, stream bool) {
		t.Helper()
		items := `{"role":"user","content":"weather?"}`
		r, _ := respond(t, g, stream, fmt.Sprintf(`{"model":%q,"input":[%s],%s}`, model, items, tools))
		calls := r.calls()
		if r.text() != "Let me see." || len(calls) != 2 || calls[0].Type != "function_call" || calls[0].Arguments != `{"city":"Paris"}` ||
			calls[1].Type != "custom_tool_call" || calls[1].Input != "*** Begin Patch\n" || calls[0].CallID == calls[1].CallID {
			t.Fatalf("%+v", r.Output)
		}
		for _, o := range r.Output {
			items += "," + string(o.raw)
		}
		items += fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":"sunny"}`, calls[0].CallID)
		items += fmt.Sprintf(`,{"type":"custom_tool_call_output","call_id":%q,"output":"done"}`, calls[1].CallID)
		if r, _ = respond(t, g, stream, fmt.Sprintf(`{"model":%q,"input":[%s],%s}`, model, items, tools)); r.text() != "It is sunny." {
			t.Errorf("%+v", r)
		}
	})
}

// TestResponsesReasoningComesBackWhole: thinking that its provider signed goes back with its signature, which the fake checks.
func TestResponsesReasoningComesBackWhole(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for _, f := range fakes {
		f.Behave(fake.Behaviour{
			Thoughts: []fake.Thought{{Text: "let me think"}}, ToolCalls: []fake.ToolCall{{Name: "f", Args: `{}`}},
			Answered: &fake.Behaviour{Text: "thought through"},
		})
	}
	const rest = `"max_output_tokens":20000,"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"],"store":false,` +
		`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]`
	for _, model := range []string{"claude", "responses"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", model, stream), func(t *testing.T) {
				items := `{"role":"user","content":"go"}`
				r, _ := respond(t, g, stream, fmt.Sprintf(`{"model":%q,"input":[%s],%s}`, model, items, rest))
				if len(r.Output) != 2 || r.Output[0].Type != "reasoning" || r.Output[0].Encrypted == "" ||
					len(r.Output[0].Summary) != 1 || r.Output[0].Summary[0].Text != "let me think" {
					t.Fatalf("%+v", r.Output)
				}
				items += "," + string(r.Output[0].raw) + "," + string(r.Output[1].raw)
				items += fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":"ok"}`, r.Output[1].CallID)
				if r, _ = respond(t, g, stream, fmt.Sprintf(`{"model":%q,"input":[%s],%s}`, model, items, rest)); r.text() != "thought through" {
					t.Errorf("%+v", r)
				}
				last, _ := fakes[model].Last()
				if model == "claude" && !strings.Contains(string(last.Body), `{"type":"thinking","thinking":"let me think","signature":`) {
					t.Errorf("the thinking did not come back: %s", last.Body)
				}
				if items = strings.ReplaceAll(items, "bardo-thinking-1.", "bardo-thinking-1.x"); model == "claude" {
					got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"input":[%s],%s}`, model, items, rest)})
					mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusBadRequest, "invalid_request")
				}
			})
		}
	}
}

// TestResponsesHistoryCrossesProviders: what one provider thought goes to the other kind without its proof, and is no error there.
func TestResponsesHistoryCrossesProviders(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for _, f := range fakes {
		f.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "let me think"}}})
	}
	for from, to := range map[string]string{"claude": "responses", "responses": "claude", "chat": "responses"} {
		t.Run(from+" to "+to, func(t *testing.T) {
			const more = `,"max_output_tokens":20000,"reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"]}`
			items := `{"role":"user","content":"go"}`
			r, _ := respond(t, g, false, fmt.Sprintf(`{"model":%q,"input":[%s]`, from, items)+more)
			for _, o := range r.Output {
				items += "," + string(o.raw)
			}
			items += `,{"role":"user","content":"and?"}`
			r, got := respond(t, g, true, fmt.Sprintf(`{"model":%q,"input":[%s]`, to, items)+more)
			if r.text() != "Hello from the fake provider." || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "reasoning") {
				t.Errorf("%+v, degraded %s", r, got.Header.Get("X-Bardo-Degraded"))
			}
		})
	}
}

// TestResponsesFailOver: a provider that fails before its first content is followed by one of another format.
func TestResponsesFailOver(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name   string
		format fake.Dialect
		more   string
	}{{"chat", fake.OpenAI, ""}, {"claude", fake.Anthropic, ""}, {"responses", fake.OpenAI, "responses: true"}}
	failing := map[string]fake.Behaviour{
		"503":                          {Status: 503},
		"an error event first":         {Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}},
		"closed after the preamble":    {Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens}},
		"connection closed at once":    {Break: fake.Break{Kind: fake.Close}},
		"in the middle of its headers": {Break: fake.Break{Kind: fake.Reset}},
	}
	o := gateway.Options{Config: quick}
	var rows []string
	for i, first := range kinds {
		for failure, b := range failing {
			second := kinds[(i+1)%len(kinds)]
			row := fmt.Sprintf("%s then %s, %s", first.name, second.name, failure)
			model := fmt.Sprintf("model-%d", len(rows))
			for j, k := range []int{i, (i + 1) % len(kinds)} {
				id := fmt.Sprintf("p-%d-%d", len(rows), j)
				f := fake.Start(t, fake.Config{Dialect: kinds[k].format, Name: id})
				if f.Behave(fake.Behaviour{Text: "the second one answers"}); j == 0 {
					f.Behave(b)
				}
				o.Providers = append(o.Providers, gateway.Provider{ID: id, Fake: f, Format: string(kinds[k].format), Models: models(model, ""), More: kinds[k].more})
			}
			rows = append(rows, row)
		}
	}
	g := gateway.Run(t, o)
	for i, row := range rows {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", row, stream), func(t *testing.T) {
				r, _ := respond(t, g, stream, fmt.Sprintf(`{"model":"model-%d","input":"hi"}`, i))
				if r.text() != "the second one answers" {
					t.Errorf("%+v", r)
				}
			})
		}
	}
	g.AssertSound(t)
}

// TestK31EndsThatAreNone: an incomplete response says why, and is charged; a stream that dies says so as an event that SDKs raise.
func TestK31EndsThatAreNone(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	stops := map[string]string{"chat": "length", "claude": "max_tokens", "responses": "max_output_tokens"}
	everywhere(t, func(t *testing.T, model string, stream bool) {
		t.Helper()
		fakes[model].Behave(fake.Behaviour{Stop: stops[model], Usage: &fake.Usage{Input: 7, Output: 3}})
		r, got := respond(t, g, stream, fmt.Sprintf(`{"model":%q,"input":"hi"}`, model))
		if r.Status != "incomplete" || r.IncompleteDetails == nil || r.IncompleteDetails.Reason != "max_output_tokens" || r.Usage.Output != 3 {
			t.Errorf("%+v", r)
		}
		if rec := recordOf(t, g, got); rec.Status != "ok" || rec.InputTokens != 7 || rec.OutputTokens != 3 {
			t.Errorf("record %+v", rec)
		}
	})
	for model := range stops {
		t.Run(model+" dies", func(t *testing.T) {
			fakes[model].Behave(fake.Behaviour{Tokens: 9, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens, Tokens: 3}})
			got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"input":"hi","stream":true}`, model)})
			evs := got.Events(t)
			if n := len(evs); n < 2 || evs[n-2].Name != "error" || evs[n-1].Name != "response.failed" ||
				!strings.Contains(evs[n-2].Data, `"code":"upstream_error"`) || strings.Contains(got.Body, "response.completed") {
				t.Errorf("ends with %+v", evs[max(0, n-2):])
			}
			if rec := recordOf(t, g, got); rec.Status != "cut" || rec.OutputTokens == 0 {
				t.Errorf("record %+v", rec)
			}
		})
	}
	t.Run("responses fails after its content", func(t *testing.T) {
		fakes["responses"].Behave(fake.Behaviour{Stop: "failed", Usage: &fake.Usage{Input: 70, Output: 30}})
		got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: `{"model":"responses","input":"hi","stream":true}`})
		if rec := recordOf(t, g, got); rec.Status != "cut" || rec.InputTokens != 70 || rec.OutputTokens != 30 {
			t.Errorf("record %+v of %s", rec, got.Body)
		}
	})
	g.AssertSound(t)
}

// TestResponsesErrors are in OpenAI's form, whole and streamed.
func TestResponsesErrors(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for _, row := range []struct {
		sentence, body, code string
		status               int
	}{
		{"no JSON", `{"model":`, "invalid_request", 400},
		{"no input", `{"model":"chat"}`, "invalid_request", 400},
		{"no such model", `{"model":"nobody","input":"hi"}`, "model_not_found", 404},
		{"a role that there is not", `{"model":"claude","input":[{"role":"tool","content":"x"}]}`, "invalid_request", 400},
		{"an earlier response where none is kept", `{"model":"chat","input":"hi","previous_response_id":"resp_1"}`, "requires_direct_key", 400},
		{"a conversation", `{"model":"claude","input":"hi","conversation":"conv_1"}`, "requires_direct_key", 400},
		{"in the background", `{"model":"chat","input":"hi","background":true}`, "requires_direct_key", 400},
		{"an item by its id", `{"model":"chat","input":[{"type":"item_reference","id":"msg_1"}]}`, "requires_direct_key", 400},
		{"an earlier response that was not made here", `{"model":"responses","input":"hi","previous_response_id":"resp_1"}`, "not_found", 404},
	} {
		for _, stream := range []bool{false, true} {
			body := row.body
			if stream && row.code != "invalid_request" {
				body = strings.TrimSuffix(body, "}") + `,"stream":true}`
			}
			t.Run(fmt.Sprintf("%s, stream=%v", row.sentence, stream), func(t *testing.T) {
				mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, gateway.Call{Path: "/v1/responses", Body: body}), row.status, row.code)
			})
		}
	}
	for status, want := range map[int]int{400: 400, 401: 502, 429: 429, 500: 502, 503: 503} {
		for model, f := range fakes {
			f.Behave(fake.Behaviour{Status: status})
			got := g.Do(t, gateway.Call{Path: "/responses", Body: fmt.Sprintf(`{"model":%q,"input":"hi","stream":true}`, model)})
			if got.Status != want {
				t.Errorf("%d of %s is %d: %s", status, model, got.Status, got.Body)
			}
		}
	}
}

// TestResponsesThatAreKept: where its provider keeps responses, a client may go on from one; unknown tools and fields pass there.
func TestResponsesThatAreKept(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	r, _ := respond(t, g, false, `{"model":"responses","input":"hi","tools":[{"type":"local_shell"}],"store":true}`)
	r, _ = respond(t, g, true, fmt.Sprintf(`{"model":"responses","input":"more","previous_response_id":%q}`, r.ID))
	if r.text() != "Hello from the fake provider." {
		t.Errorf("%+v", r)
	}
	if !fakes["responses"].Saw(`"tools":[{"type":"local_shell"}],"store":true}`) {
		t.Error("the client's bytes did not pass")
	}
	_, got := respond(t, g, false, `{"model":"claude","input":"hi","tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{"type":"object"}}],"store":true}`)
	if d := got.Header.Get("X-Bardo-Degraded"); !strings.Contains(d, "web_search") || !strings.Contains(d, "store") {
		t.Errorf("degraded %q", d)
	}
}

// TestWhatOnlyAProviderKeeps: responses, files and batches by their ids take a key of one's own, and say so in the caller's format.
func TestWhatOnlyAProviderKeeps(t *testing.T) {
	t.Parallel()
	g, _ := responders(t)
	for _, row := range []struct {
		method, path string
		d            fake.Dialect
	}{
		{http.MethodGet, "/v1/responses/resp_1", fake.OpenAI},
		{http.MethodDelete, "/v1/responses/resp_1", fake.OpenAI},
		{http.MethodPost, "/responses/resp_1/cancel", fake.OpenAI},
		{http.MethodGet, "/v1/responses/resp_1/input_items", fake.OpenAI},
		{http.MethodPost, "/v1/batches", fake.OpenAI},
		{http.MethodGet, "/v1/batches/batch_1", fake.OpenAI},
		{http.MethodPost, "/v1/files", fake.OpenAI},
		{http.MethodGet, "/files/file_1/content", fake.OpenAI},
		{http.MethodPost, "/v1/messages/batches", fake.Anthropic},
		{http.MethodGet, "/v1/messages/batches/b_1/results", fake.Anthropic},
	} {
		c := gateway.Call{Method: row.method, Path: row.path}
		if row.method == http.MethodPost {
			c.Body = `{}`
		}
		mustFail(t, ask{dialect: row.d}, g.Do(t, c), http.StatusBadRequest, "requires_direct_key")
		c.Key = "bardo-wrong"
		if got := g.Do(t, c); got.Status != http.StatusUnauthorized {
			t.Errorf("without a key, %s %s is %d", row.method, row.path, got.Status)
		}
	}
}

func TestResponsesInputTokens(t *testing.T) {
	t.Parallel()
	g, _ := responders(t)
	got := g.Do(t, gateway.Call{Path: "/v1/responses/input_tokens", Body: `{"model":"chat","input":"How many tokens is this?"}`})
	var n struct {
		Object string
		Tokens int `json:"input_tokens"`
	}
	if got.JSON(t, &n); got.Status != http.StatusOK || n.Object != "response.input_tokens" || n.Tokens < 5 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestResponsesClientLeaves: the provider is left at once.
func TestResponsesClientLeaves(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for model, f := range fakes {
		t.Run(model, func(t *testing.T) {
			f.Behave(fake.Behaviour{Tokens: 5, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 3}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := g.Open(ctx, gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"input":"hi","stream":true}`, model)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			r := gateway.NewReader(res.Body)
			for range 5 {
				if _, err := r.Next(); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			if _, err := f.WaitCancelled(soon(t), 1); err != nil {
				t.Fatal(err)
			}
			if rec := recordOf(t, g, gateway.Answer{Header: res.Header}); rec.Status != "cancelled" || rec.OutputTokens == 0 {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// TestK40ResponsesHeartbeats fall between events, and the stream reads well.
func TestK40ResponsesHeartbeats(t *testing.T) {
	t.Parallel()
	f := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "responses"})
	f.Behave(fake.Behaviour{Tokens: 3, FirstToken: 700 * time.Millisecond, Gap: 700 * time.Millisecond})
	g := beating(t, "5s", gateway.Provider{ID: "p", Fake: f, Models: models("m", ""), More: "responses: true"})
	got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: `{"model":"m","input":"hi","stream":true}`})
	checkHeartbeats(t, got.Body, 3)
	if r := streamed(t, got); r.text() != "tok0 tok1 tok2 " {
		t.Errorf("%+v", r)
	}
}

// TestResponsesFromTheStore: the same question in either form is answered from the store; one in another dialect, too.
func TestResponsesFromTheStore(t *testing.T) {
	t.Parallel()
	g, fakes := responders(t)
	for model, f := range fakes {
		t.Run(model, func(t *testing.T) {
			body := fmt.Sprintf(`{"model":%q,"input":"what is %s?","temperature":0,"max_output_tokens":100}`, model, model)
			first, _ := respond(t, g, true, body, fast)
			for _, stream := range []bool{false, true} {
				r, got := respond(t, g, stream, body, fast)
				if k := got.Header.Get("X-Bardo-Cache"); k != "hash" || r.text() != first.text() || r.Usage.Output != first.Usage.Output {
					t.Errorf("stream=%v: %s %+v, want %+v", stream, k, r, first)
				}
			}
			a := ask{dialect: fake.OpenAI, model: model, say: "what is " + model + "?", more: `"temperature":0,"max_tokens":100`}
			got := g.Do(t, a.call(fast))
			if k := got.Header.Get("X-Bardo-Cache"); k != "hash" || text(t, a, got) != first.text() {
				t.Errorf("Chat Completions: %s %s", k, got.Body)
			}
			if n := len(f.Generations()); n != 1 {
				t.Errorf("the provider was asked %d times", n)
			}
		})
	}
}

// TestTheDemoSpeaksResponses, though it is asked in another format.
func TestTheDemoSpeaksResponses(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick, NoKey: true})
	for _, stream := range []bool{false, true} {
		r, got := respond(t, g, stream, `{"model":"demo","input":"Hello there"}`)
		if !strings.Contains(r.text(), "Hello there") || got.Header.Get("X-Bardo-Provider") != "demo" {
			t.Errorf("%+v", r)
		}
	}
}

// TestOpenAIIsAskedInResponses: OpenAI's own endpoint gets a client's bytes, and counts its tokens.
func TestOpenAIIsAskedInResponses(t *testing.T) {
	t.Parallel()
	f := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	f.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "hm"}}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: f}}})
	const body = `{"model":"gpt-4o","input":"hi","include":["reasoning.encrypted_content"],"tools":[{"type":"web_search"}]}`
	for _, stream := range []bool{false, true} {
		r, _ := respond(t, g, stream, body)
		if r.text() != "Hello from the fake provider." || !strings.HasPrefix(r.Output[0].Encrypted, "gAAAA") {
			t.Errorf("%+v", r)
		}
	}
	if rs := f.Generations(); len(rs) != 2 || rs[0].Path != "/v1/responses" || string(rs[0].Body) != body {
		t.Errorf("asked %d times: %s", len(rs), rs[0].Body)
	}
	got := g.Do(t, gateway.Call{Path: "/v1/responses/input_tokens", Body: body})
	if want := fmt.Sprintf(`{"object":"response.input_tokens","input_tokens":%d}`, len(body)/4); got.Body != want || got.Header.Get("X-Bardo-Degraded") != "" {
		t.Errorf("%d %s %v, want %s", got.Status, got.Body, got.Header, want)
	}
}
