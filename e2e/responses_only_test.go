package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// onlyInResponses is a model that OpenAI serves in Responses alone.
const onlyInResponses = "gpt-5.5-pro"

func responsesOnly(t *testing.T) (*gateway.Gateway, *fake.Server) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Only: []string{onlyInResponses}})
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: p}}}), p
}

// lookTurn is what a client read in one turn, and the turn as it gives it back.
type lookTurn struct {
	thought, text, call, id string
	input, cached, output   int
	back                    string
}

// lookClient is a client with one tool that thinks hard.
type lookClient struct {
	name  string
	ask   func(turns []string, stream bool) gateway.Call
	parse func(t *testing.T, got gateway.Answer, stream bool) lookTurn
	user  string                                    // the question
	sees  func(call lookTurn, result string) string // a call's result
}

var lookClients = []lookClient{
	{
		name: "chat",
		ask: func(turns []string, stream bool) gateway.Call {
			return gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(`{"model":%q,"stream":%v,"stream_options":{"include_usage":true},"max_tokens":2000,"reasoning_effort":"high",`+
				`"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}}],"messages":[%s]}`,
				onlyInResponses, stream, strings.Join(turns, ","))}
		},
		parse: readChat,
		user:  `{"role":"user","content":"How is the weather?"}`,
		sees: func(call lookTurn, result string) string {
			return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, call.id, result)
		},
	},
	{
		name: "messages",
		ask: func(turns []string, stream bool) gateway.Call {
			return gateway.Call{Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01"}, Body: fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":20000,`+
				`"thinking":{"type":"enabled","budget_tokens":10000},"tools":[{"name":"look","input_schema":{"type":"object","properties":{"at":{"type":"string"}}}}],"messages":[%s]}`,
				onlyInResponses, stream, strings.Join(turns, ","))}
		},
		parse: readMessages,
		user:  `{"role":"user","content":"How is the weather?"}`,
		sees: func(call lookTurn, result string) string {
			return fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`, call.id, result)
		},
	},
	{
		name: "gemini",
		ask: func(turns []string, stream bool) gateway.Call {
			return gateway.Call{Path: geminiPath(onlyInResponses, stream), Body: fmt.Sprintf(`{"generationConfig":{"maxOutputTokens":2000,"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true}},`+
				`"tools":[{"functionDeclarations":[{"name":"look","parametersJsonSchema":{"type":"object","properties":{"at":{"type":"string"}}}}]}],"contents":[%s]}`, strings.Join(turns, ","))}
		},
		parse: readGenerated,
		user:  `{"role":"user","parts":[{"text":"How is the weather?"}]}`,
		sees: func(call lookTurn, result string) string {
			return fmt.Sprintf(`{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"look","response":{"result":%q}}}]}`, call.id, result)
		},
	},
}

func readChat(t *testing.T, got gateway.Answer, stream bool) (l lookTurn) {
	t.Helper()
	type message struct {
		Content   string
		Reasoning string            `json:"reasoning_content"`
		Details   []json.RawMessage `json:"reasoning_details"`
		ToolCalls []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	type completion struct {
		Choices []struct{ Message, Delta message }
		Usage   *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
			Details    struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	bodies := []string{got.Body}
	if stream {
		bodies = nil
		for _, ev := range got.Events(t) {
			if strings.HasPrefix(ev.Data, "{") {
				bodies = append(bodies, ev.Data)
			}
		}
	}
	var details []string
	var args string
	for _, body := range bodies {
		var c completion
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if c.Usage != nil {
			l.input, l.cached, l.output = c.Usage.Prompt, c.Usage.Details.Cached, c.Usage.Completion
		}
		for _, choice := range c.Choices {
			for _, m := range []message{choice.Message, choice.Delta} {
				l.text, l.thought = l.text+m.Content, l.thought+m.Reasoning
				for _, d := range m.Details {
					details = append(details, string(d))
				}
				for _, call := range m.ToolCalls {
					l.id, l.call, args = l.id+call.ID, l.call+call.Function.Name, args+call.Function.Arguments
				}
			}
		}
	}
	calls := ""
	if l.id != "" {
		calls = fmt.Sprintf(`,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]`, l.id, l.call, args)
	}
	l.call += args
	l.back = fmt.Sprintf(`{"role":"assistant","content":%q,"reasoning_content":%q,"reasoning_details":[%s]%s}`, l.text, l.thought, strings.Join(details, ","), calls)
	return l
}

func readMessages(t *testing.T, got gateway.Answer, stream bool) (l lookTurn) {
	t.Helper()
	type usage struct {
		Input  int `json:"input_tokens"`
		Cached int `json:"cache_read_input_tokens"`
		Output int `json:"output_tokens"`
	}
	var u struct{ Usage usage }
	if stream {
		for _, ev := range got.Events(t) {
			if ev.Name == "message_delta" && json.Unmarshal([]byte(ev.Data), &u) != nil {
				t.Fatal(ev.Data)
			}
		}
	} else {
		got.JSON(t, &u)
	}
	l.input, l.cached, l.output = u.Usage.Input+u.Usage.Cached, u.Usage.Cached, u.Usage.Output
	blocks := blocksOf(t, got, stream)
	for _, b := range blocks {
		switch b["type"] {
		case "text":
			l.text += fmt.Sprint(b["text"])
		case "thinking":
			l.thought += fmt.Sprint(b["thinking"])
		case "tool_use":
			args, err := json.Marshal(b["input"])
			if err != nil {
				t.Fatal(err)
			}
			l.id, l.call = fmt.Sprint(b["id"]), fmt.Sprint(b["name"])+string(args)
		}
	}
	content, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	l.back = `{"role":"assistant","content":` + string(content) + `}`
	return l
}

func readGenerated(t *testing.T, got gateway.Answer, stream bool) (l lookTurn) {
	t.Helper()
	h := readGemini(t, got, stream)
	l.text, l.thought = h.text, h.thought
	l.input, l.output = h.usage.PromptTokenCount, h.usage.CandidatesTokenCount+h.usage.ThoughtsTokenCount
	l.cached = 40 // by readGemini not read
	for _, part := range h.parts {
		var p struct {
			FunctionCall *struct {
				ID, Name string
				Args     json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(part), &p); err != nil {
			t.Fatal(err)
		}
		if p.FunctionCall != nil {
			l.id, l.call = p.FunctionCall.ID, p.FunctionCall.Name+compact(t, p.FunctionCall.Args)
		}
	}
	l.back = `{"role":"model","parts":[` + strings.Join(h.parts, ",") + `]}`
	return l
}

// TestEveryClientReachesAModelOfResponsesAlone: a model that its provider serves in Responses alone answers every client, streamed or not,
// through a call of a tool and back, with its encrypted reasoning before what it led to. Its provider keeps nothing.
func TestEveryClientReachesAModelOfResponsesAlone(t *testing.T) {
	t.Parallel()
	g, p := responsesOnly(t)
	p.BehaveFor(onlyInResponses, fake.Behaviour{
		Thoughts: []fake.Thought{{Text: "I have to look."}}, Text: "Let me look.",
		ToolCalls: []fake.ToolCall{{Name: "look", Args: `{"at":"home"}`, Pieces: 3}},
		Usage:     &fake.Usage{Input: 100, Cached: 40, Output: 30, Reasoning: 12},
		Answered:  &fake.Behaviour{Text: "It is sunny.", Usage: &fake.Usage{Input: 100, Cached: 40, Output: 30, Reasoning: 12}},
	})
	for _, c := range lookClients {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", c.name, stream), func(t *testing.T) {
				turns := []string{c.user}
				got := g.Do(t, c.ask(turns, stream))
				if got.Status != http.StatusOK || got.Err != nil {
					t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
				}
				first := c.parse(t, got, stream)
				if first.thought != "I have to look." || first.text != "Let me look." || first.call != `look{"at":"home"}` || first.id == "" {
					t.Errorf("the client hears %+v in %s", first, got.Body)
				}
				if first.input != 140 || first.cached != 40 || first.output != 30 {
					t.Errorf("usage: %+v in %s", first, got.Body)
				}
				checkOnlyAsked(t, p, stream)
				turns = append(turns, first.back, c.sees(first, "sun"))
				got = g.Do(t, c.ask(turns, stream))
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Attempts") != "1" {
					t.Fatalf("%d after %s attempts: %s", got.Status, got.Header.Get("X-Bardo-Attempts"), got.Body)
				}
				if second := c.parse(t, got, stream); second.text != "It is sunny." || second.call != "" {
					t.Errorf("the client hears %+v in %s", second, got.Body)
				}
				checkOnlyGivenBack(t, p, first.id)
			})
		}
	}
}

// checkOnlyAsked: the provider was asked in Responses to keep nothing, and to tell what it thinks.
func checkOnlyAsked(t *testing.T, p *fake.Server, stream bool) {
	t.Helper()
	last := lastOf(t, p)
	var body struct {
		Store     *bool
		Stream    bool
		Include   []string
		Reasoning struct{ Effort, Summary string }
	}
	if err := json.Unmarshal(last.Body, &body); err != nil || last.Path != "/v1/responses" {
		t.Fatalf("%s was asked: %v %s", last.Path, err, last.Body)
	}
	if body.Store == nil || *body.Store || body.Stream != stream || strings.Join(body.Include, ",") != "reasoning.encrypted_content" ||
		body.Reasoning.Effort != "high" || body.Reasoning.Summary != "auto" {
		t.Errorf("it is asked %s", last.Body)
	}
}

// checkOnlyGivenBack: the provider got its reasoning, its words, its call and the result back, in this order.
func checkOnlyGivenBack(t *testing.T, p *fake.Server, call string) {
	t.Helper()
	var body struct {
		Input []struct {
			Type, Role string
			ID         string
			CallID     string `json:"call_id"`
			Encrypted  string `json:"encrypted_content"`
			Content    json.RawMessage
			Output     string
		}
	}
	last := lastOf(t, p)
	if err := json.Unmarshal(last.Body, &body); err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, it := range body.Input {
		switch it.Type {
		case "reasoning":
			items = append(items, fmt.Sprint("reasoning ", strings.HasPrefix(it.Encrypted, "gAAAAAB"), it.ID))
		case "function_call":
			items = append(items, "call "+it.CallID)
		case "function_call_output":
			items = append(items, "result "+it.CallID+" "+it.Output)
		default:
			items = append(items, it.Role+" "+string(it.Content))
		}
	}
	want := fmt.Sprintf(`user "How is the weather?",reasoning true,assistant "Let me look.",call %s,result %s sun`, call, call)
	if got := strings.Join(items, ","); got != want {
		t.Errorf("the provider is told\n%s\nwant\n%s\n%s", got, want, last.Body)
	}
}

// TestWhatAModelOfResponsesAloneRefuses: what the provider refuses of what the gateway asks beside the client's words is left out, and the
// client is answered; what the client may not have is its own error; and an answer that fails in the middle fails in the client's words.
func TestWhatAModelOfResponsesAloneRefuses(t *testing.T) {
	t.Parallel()
	g, p := responsesOnly(t)
	for _, c := range lookClients {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", c.name, stream), func(t *testing.T) {
				p.QueueFor(onlyInResponses, fake.Behaviour{
					Status: http.StatusBadRequest, ErrorType: "invalid_request_error", ErrorCode: "unsupported_value",
					Message: "Your organization must be verified to generate reasoning summaries. Please go to your organization's settings.",
				}, fake.Behaviour{Text: "Hello."})
				got := g.Do(t, c.ask([]string{c.user}, stream))
				if got.Status != http.StatusOK || c.parse(t, got, stream).text != "Hello." || got.Header.Get("X-Bardo-Attempts") != "2" {
					t.Fatalf("a summary is refused: %d after %s attempts: %s", got.Status, got.Header.Get("X-Bardo-Attempts"), got.Body)
				}
				if last := lastOf(t, p); strings.Contains(string(last.Body), `"summary"`) || !strings.Contains(string(last.Body), `"effort":"high"`) {
					t.Errorf("it is asked again: %s", last.Body)
				}
				p.QueueFor(onlyInResponses, fake.Behaviour{Status: http.StatusBadRequest, ErrorType: "invalid_request_error", ErrorCode: "x", Message: "That is not allowed."})
				if got = g.Do(t, c.ask([]string{c.user}, stream)); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "That is not allowed.") {
					t.Errorf("refused: %d %s", got.Status, got.Body)
				}
				if !stream {
					return
				}
				p.QueueFor(onlyInResponses, fake.Behaviour{Tokens: 20, Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 5}})
				got = g.Do(t, c.ask([]string{c.user}, stream))
				if got.Status != http.StatusOK || !strings.Contains(got.Body, "tok4") || !strings.Contains(got.Body, `"error"`) || strings.Contains(got.Body, "tok19") {
					t.Errorf("an answer that fails: %d %s", got.Status, got.Body)
				}
			})
		}
	}
}

// TestWhatResponsesCannotSayIsNamed: a client hears by its own words what a model of Responses alone was not told.
func TestWhatResponsesCannotSayIsNamed(t *testing.T) {
	t.Parallel()
	g, p := responsesOnly(t)
	for _, r := range []struct {
		client         shaper
		more, degraded string
		says           string
	}{
		{"openai", `"stop":["X"],"seed":7,"n":2,"presence_penalty":0.5,"logprobs":true`, "presence_penalty,seed,stop,n,logprobs", `"store":false`},
		{"openai", `"response_format":{"type":"json_object"},"max_completion_tokens":5`, "max_completion_tokens", `"text":{"format":{"type":"json_object"}}`},
		{"anthropic", `"stop_sequences":["X"],"top_k":5`, "top_k,stop_sequences", `"max_output_tokens":400`},
		{"gemini", `"generationConfig":{"stopSequences":["X"],"candidateCount":2,"responseMimeType":"application/json"}`, "stopSequences,candidateCount", `{"type":"json_object"}`},
	} {
		got := g.Do(t, r.client.call(onlyInResponses, false, "Say it in JSON.", r.more))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != r.degraded || !strings.Contains(string(lastOf(t, p).Body), r.says) {
			t.Errorf("%s with %s: %d, degraded %q, want %q\n%s", r.client, r.more, got.Status, got.Header.Get("X-Bardo-Degraded"), r.degraded, lastOf(t, p).Body)
		}
	}
	for _, stream := range []bool{false, true} {
		legacy := g.Do(t, gateway.Call{Path: "/v1/completions", Body: fmt.Sprintf(`{"model":%q,"prompt":"Say it.","max_tokens":20,"stream":%v}`, onlyInResponses, stream)})
		if last := lastOf(t, p); legacy.Status != http.StatusOK || !strings.Contains(legacy.Body, "provider.") || last.Path != "/v1/responses" {
			t.Errorf("a legacy completion, stream=%v: %d %s, by %s", stream, legacy.Status, legacy.Body, last.Path)
		}
	}
	sound := `{"model":"` + onlyInResponses + `","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]}`
	if got := g.Chat(t, sound); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "input_audio") {
		t.Errorf("sound: %d %s", got.Status, got.Body)
	}
}
