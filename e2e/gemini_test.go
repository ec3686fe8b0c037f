package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// geminiPath is where a client of Google's sends a request.
func geminiPath(model string, stream bool) string {
	if stream {
		return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
	}
	return "/v1beta/models/" + model + ":generateContent"
}

// geminiContent is an answer in Gemini's format, as a client reads it.
type geminiContent struct {
	text, thought, finish string
	calls                 []string // names and arguments
	parts                 []string // as they came, to be given back
	usage                 struct {
		PromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, TotalTokenCount int
	}
}

type geminiAnswer struct {
	Candidates []struct {
		Content      struct{ Parts []json.RawMessage }
		FinishReason string
	}
	UsageMetadata json.RawMessage
	ModelVersion  string
	ResponseID    string `json:"responseId"`
}

// readGemini reads an answer as Google's SDKs do: a stream has events of one line, and nothing else but empty lines.
func readGemini(t testing.TB, got gateway.Answer, stream bool) geminiContent {
	t.Helper()
	var h geminiContent
	if !stream {
		h.add(t, []byte(got.Body))
		return h
	}
	if ct := got.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("content-type %q: %s", ct, got.Body)
	}
	for line := range strings.Lines(got.Body) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			t.Fatalf("Google's clients cannot read the line %q", line)
		}
		if h.finish != "" {
			t.Errorf("%s after the reason to stop", data)
		}
		h.add(t, []byte(data))
	}
	if h.finish == "" {
		t.Errorf("no reason to stop in %q", got.Body)
	}
	return h
}

func (h *geminiContent) add(t testing.TB, chunk []byte) {
	t.Helper()
	var a geminiAnswer
	if err := json.Unmarshal(chunk, &a); err != nil || a.ResponseID == "" {
		t.Fatalf("%v in %s", err, chunk)
	}
	if len(a.UsageMetadata) > 0 {
		if err := json.Unmarshal(a.UsageMetadata, &h.usage); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.Candidates) == 0 {
		return
	}
	h.finish = a.Candidates[0].FinishReason
	for _, raw := range a.Candidates[0].Content.Parts {
		var p struct {
			Text         string
			Thought      bool
			FunctionCall *struct {
				Name string
				Args json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		switch {
		case p.FunctionCall != nil:
			h.calls = append(h.calls, p.FunctionCall.Name+" "+compact(t, p.FunctionCall.Args))
		case p.Thought:
			h.thought += p.Text
		default:
			h.text += p.Text
		}
		h.parts = append(h.parts, string(raw))
	}
}

func compact(t testing.TB, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// geminiFails checks an error in Google's form.
func geminiFails(t testing.TB, got gateway.Answer, status int, code string) {
	t.Helper()
	var e struct {
		Error struct {
			Code            int
			Message, Status string
			Details         []struct{ Reason string }
		}
	}
	if got.Status != status {
		t.Fatalf("status %d, want %d: %s", got.Status, status, got.Body)
	}
	got.JSON(t, &e)
	if e.Error.Code != status || e.Error.Message == "" || e.Error.Status == "" || len(e.Error.Details) == 0 || e.Error.Details[0].Reason != code {
		t.Errorf("got %s, want code %q in Google's form", got.Body, code)
	}
}

// geminiLab is a gateway before providers of the three formats, each with a model of its own name.
type geminiLab struct {
	*gateway.Gateway
	fakes map[fake.Dialect]*fake.Server
}

var formats = []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}

func newGeminiLab(t *testing.T) geminiLab {
	t.Helper()
	l := geminiLab{fakes: make(map[fake.Dialect]*fake.Server, len(formats))}
	o := gateway.Options{Config: quick}
	for _, d := range formats {
		f := fake.Start(t, fake.Config{Dialect: d, Name: "p-" + string(d)})
		l.fakes[d] = f
		o.Providers = append(o.Providers, gateway.Provider{ID: "p-" + string(d), Fake: f, Format: string(d), Models: models("m-"+string(d), "")})
	}
	l.Gateway = gateway.Run(t, o)
	return l
}

// generate sends a request of a client of Google's.
func (l geminiLab) generate(t *testing.T, model string, stream bool, body string) gateway.Answer {
	t.Helper()
	got := l.Do(t, gateway.Call{Path: geminiPath(model, stream), Body: body})
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return got
}

// geminiLooks is a request of a client of Google's that offers a function and shows a picture.
const geminiLooks = `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Look."},` +
	`{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}%s],"tools":[{"functionDeclarations":[{"name":"look","description":"Looks.",` +
	`"parameters":{"type":"OBJECT","properties":{"at":{"type":"STRING"}},"required":["at"]}}]}],` +
	`"generationConfig":{"maxOutputTokens":3000,"temperature":1,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}}`

// TestGeminiClientsOverEveryProvider: a client of Google's works with tools, over two rounds, with a provider of each format; what a
// model signed comes back to it.
func TestGeminiClientsOverEveryProvider(t *testing.T) {
	t.Parallel()
	l := newGeminiLab(t)
	for _, d := range formats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", d, stream), func(t *testing.T) {
				f, model := l.fakes[d], "m-"+string(d)
				f.BehaveFor(model, fake.Behaviour{
					Text: "Let me see.", Thoughts: []fake.Thought{{Text: "let me think"}},
					ToolCalls: []fake.ToolCall{{Name: "look", Args: `{"at":"Köln"}`, Pieces: 3}, {Name: "look", Args: `{"at":"x"}`}},
					Answered:  &fake.Behaviour{Text: "It is sunny.", Thoughts: []fake.Thought{{Text: "so it is"}}},
				})
				body := fmt.Sprintf(geminiLooks, "")
				got := l.generate(t, model, stream, body)
				h := readGemini(t, got, stream)
				if h.text != "Let me see." || h.thought != "let me think" || h.finish != "STOP" {
					t.Errorf("the client reads %+v", h)
				}
				if want := []string{`look {"at":"Köln"}`, `look {"at":"x"}`}; !slices.Equal(h.calls, want) {
					t.Errorf("calls %q, want %q", h.calls, want)
				}
				if h.usage.PromptTokenCount == 0 || h.usage.CandidatesTokenCount == 0 {
					t.Errorf("usage %+v", h.usage)
				}
				if d == fake.Gemini && string(lastOf(t, f).Body) != body {
					t.Errorf("the provider got\n%s\nwant\n%s", lastOf(t, f).Body, body)
				}
				turns := `,{"role":"model","parts":[` + strings.Join(h.parts, ",") + `]},{"role":"user","parts":[` +
					`{"functionResponse":{"name":"look","response":{"result":"sunny"}}},{"functionResponse":{"name":"look","response":{"a":1}}}]}`
				h = readGemini(t, l.generate(t, model, stream, fmt.Sprintf(geminiLooks, turns)), stream)
				if h.text != "It is sunny." {
					t.Errorf("the client reads %+v", h)
				}
				asked := string(lastOf(t, f).Body)
				want := map[fake.Dialect]string{fake.OpenAI: `sunny`, fake.Anthropic: `"signature"`, fake.Gemini: fake.GeminiSignature("let me think")}[d]
				if !strings.Contains(asked, want) || !strings.Contains(asked, "iVBORw0KGgo=") {
					t.Errorf("%q is not in %s", want, asked)
				}
			})
		}
	}
}

// TestClientsOverGemini: clients of the other formats work with tools, over two rounds, with a provider of Gemini's format. Signatures
// come back for the models that want them.
func TestClientsOverGemini(t *testing.T) {
	t.Parallel()
	f := fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "g"})
	f.Behave(fake.Behaviour{
		Thoughts:  []fake.Thought{{Text: "let me think"}},
		ToolCalls: []fake.ToolCall{{Name: "look", Args: `{"at":"Köln"}`}},
		Answered:  &fake.Behaviour{Text: "It is sunny."},
	})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "g", Fake: f, Format: "gemini", Models: models("gemini-3-x", "")},
	}})
	const image = `iVBORw0KGgo=`
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("OpenAI, stream=%v", stream), func(t *testing.T) {
			const request = `{"model":"gemini-3-x","stream":%v,"reasoning_effort":"low","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Look."},` +
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}}]}%s],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]}`
			got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(request, false, "")})
			var a struct {
				Choices []struct {
					Message      json.RawMessage
					FinishReason string `json:"finish_reason"`
				}
			}
			got.JSON(t, &a)
			if len(a.Choices) != 1 || a.Choices[0].FinishReason != "tool_calls" || !strings.Contains(got.Body, "google-gemini-v1") {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			id := betweenQuotes(got.Body, `"tool_calls":[{"id":"`)
			turns := "," + string(a.Choices[0].Message) + `,{"role":"tool","tool_call_id":"` + id + `","content":"sunny"}`
			ask := ask{dialect: fake.OpenAI, stream: stream}
			answer := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: fmt.Sprintf(request, stream, turns)})
			if answer.Status != http.StatusOK || text(t, ask, answer) != "It is sunny." {
				t.Fatalf("%d %s", answer.Status, answer.Body)
			}
			checkSentBack(t, f)
		})
		t.Run(fmt.Sprintf("Anthropic, stream=%v", stream), func(t *testing.T) {
			const request = `{"model":"gemini-3-x","max_tokens":4000,"stream":%v,"thinking":{"type":"enabled","budget_tokens":1024},"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"Look."},` +
				`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + image + `"}}]}%s],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`
			got := g.Messages(t, fmt.Sprintf(request, false, ""))
			var a struct {
				Content    json.RawMessage
				StopReason string `json:"stop_reason"`
			}
			got.JSON(t, &a)
			if a.StopReason != "tool_use" || !strings.Contains(got.Body, "let me think") {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			id := betweenQuotes(got.Body, `"type":"tool_use","id":"`)
			turns := `,{"role":"assistant","content":` + string(a.Content) + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"sunny"}]}`
			ask := ask{dialect: fake.Anthropic, stream: stream}
			answer := g.Messages(t, fmt.Sprintf(request, stream, turns))
			if answer.Status != http.StatusOK || text(t, ask, answer) != "It is sunny." {
				t.Fatalf("%d %s", answer.Status, answer.Body)
			}
			checkSentBack(t, f)
		})
	}
}

// checkSentBack looks for what the model said, saw and signed in the last request.
func checkSentBack(t *testing.T, f *fake.Server) {
	t.Helper()
	asked := string(lastOf(t, f).Body)
	for _, want := range []string{fake.GeminiSignature("let me think"), `"functionResponse"`, `"name":"look"`, `"output":"sunny"`, `"inlineData"`, "Be brief."} {
		if !strings.Contains(asked, want) {
			t.Errorf("%s is not in %s", want, asked)
		}
	}
	if strings.Contains(asked, "skip_thought_signature_validator") {
		t.Errorf("a signature was lost: %s", asked)
	}
}

// betweenQuotes is what follows a text up to the next quote.
func betweenQuotes(s, after string) string {
	_, rest, _ := strings.Cut(s, after)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// aLongStory is a history of each client that has tools, an image and thinking of all makers.
var aLongStory = map[fake.Dialect]string{
	fake.OpenAI: `{"model":%q,"stream":%v,"reasoning_effort":"low","messages":[{"role":"user","content":[{"type":"text","text":"Look."},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},` +
		`{"role":"assistant","content":"Let me see.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","signature":"` + "%s" + `","format":"anthropic-claude-v1","index":0},{"type":"reasoning.encrypted","data":"` + "%s" + `","format":"google-gemini-v1","index":1}],` +
		`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"at\":\"x\"}"}},{"id":"call_2","type":"function","function":{"name":"look","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"call_2","content":"two"},{"role":"tool","tool_call_id":"call_1","content":"one"}],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]}`,
	fake.Anthropic: `{"model":%q,"max_tokens":4000,"stream":%v,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":[{"type":"text","text":"Look."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"` + "%s" + `"},{"type":"text","text":"Let me see."},{"type":"redacted_thinking","data":"google-gemini-v1#` + "%s" + `"},` +
		`{"type":"tool_use","id":"call_1","name":"look","input":{"at":"x"}},{"type":"tool_use","id":"call_2","name":"look","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_2","content":"two"},{"type":"tool_result","tool_use_id":"call_1","content":"one"}]}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`,
	fake.Gemini: `{"contents":[{"role":"user","parts":[{"text":"Look."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},` +
		`{"role":"model","parts":[{"text":"Hm.","thought":true,"thoughtSignature":"` + "%s" + `"},{"text":"Let me see."},{"functionCall":{"id":"call_1","name":"look","args":{"at":"x"}},"thoughtSignature":"` + "%s" + `"},{"functionCall":{"id":"call_2","name":"look","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"call_2","name":"look","response":{"result":"two"}}},{"functionResponse":{"id":"call_1","name":"look","response":{"result":"one"}}}]}],` +
		`"tools":[{"functionDeclarations":[{"name":"look","parametersJsonSchema":{"type":"object"}}]}],"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}}`,
}

// TestD15FailsOverAcrossThreeFormats: a request whose history has tools, an image and thinking goes from OpenAI to Anthropic and on to
// Gemini; each is asked in its own format, by its own rules, and the client reads an answer in its own.
func TestD15FailsOverAcrossThreeFormats(t *testing.T) {
	t.Parallel()
	upstream := map[fake.Dialect]string{fake.OpenAI: "gpt-5", fake.Anthropic: "claude-x", fake.Gemini: "gemini-3-x"}
	providers := map[string]map[fake.Dialect]*fake.Server{} // each case has its own, so that none disturbs another's health
	o := gateway.Options{Config: quick}
	name := func(client fake.Dialect, stream bool) string { return fmt.Sprintf("%s-%v", client, stream) }
	for _, client := range formats {
		for _, stream := range []bool{false, true} {
			own := make(map[fake.Dialect]*fake.Server, len(formats))
			providers[name(client, stream)] = own
			for i, d := range formats {
				id := "to-" + string(d) + "-" + name(client, stream)
				own[d] = fake.Start(t, fake.Config{Dialect: d, Name: id})
				if i < 2 {
					own[d].Behave(fake.Behaviour{Status: 500})
				}
				o.Providers = append(o.Providers, gateway.Provider{ID: id, Fake: own[d], Format: string(d), Models: models("story-"+name(client, stream), upstream[d])})
			}
		}
	}
	g := gateway.Run(t, o)
	for _, client := range formats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream=%v", client, stream), func(t *testing.T) {
				fakes := providers[name(client, stream)]
				claude, gemini := fakes[fake.Anthropic].Sign("Hm."), fake.GeminiSignature("Hm.")
				a := ask{dialect: client, model: "story-" + name(client, stream), stream: stream}
				call := a.call()
				attempts := "3"
				switch client {
				case fake.Gemini:
					call.Body = fmt.Sprintf(aLongStory[client], wrappedClaude(claude), gemini)
				case fake.OpenAI: // which refuses reasoning_details, and is asked once more without
					attempts = "4"
					call.Body = fmt.Sprintf(aLongStory[client], a.model, stream, claude, gemini)
				default:
					call.Body = fmt.Sprintf(aLongStory[client], a.model, stream, claude, gemini)
				}
				got := g.Do(t, call)
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "to-gemini-"+name(client, stream) || got.Header.Get("X-Bardo-Attempts") != attempts {
					t.Fatalf("%d after %s attempts by %s: %s", got.Status, got.Header.Get("X-Bardo-Attempts"), got.Header.Get("X-Bardo-Provider"), got.Body)
				}
				if said := text(t, a, got); said != "Hello from the fake provider." {
					t.Errorf("the client reads %q", said)
				}
				for d, wants := range map[fake.Dialect][]string{
					fake.OpenAI: {`"tool_call_id"`}, fake.Anthropic: {`"tool_result"`, claude}, fake.Gemini: {`"functionResponse"`, gemini},
				} {
					asked := string(lastOf(t, fakes[d]).Body)
					for _, want := range append(wants, "iVBORw0KGgo=", "Let me see.", "one", "two") {
						if !strings.Contains(asked, want) {
							t.Errorf("%s: %q is not in %s", d, want, asked)
						}
					}
				}
			})
		}
	}
	g.AssertSound(t)
}

// wrappedClaude is a signature of Anthropic's as a client of Google's keeps it.
func wrappedClaude(signature string) string {
	return base64.StdEncoding.EncodeToString([]byte("anthropic-claude-v1#" + signature))
}

type geminiErrorCase struct {
	path, body string
	status     int
	code       string
}

// geminiHi is a request of a client of Google's, and fakeHello what every fake provider answers to it.
const (
	geminiHi  = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	fakeHello = "Hello from the fake provider."
)

// TestGeminiEndpoints: what a client of Google's finds besides answers, and how it shows its key.
func TestGeminiEndpoints(t *testing.T) {
	t.Parallel()
	l := newGeminiLab(t)
	t.Run("the key in a header, in either version of the API", func(t *testing.T) {
		for _, path := range []string{"/v1beta/models/m-gemini:generateContent", "/v1/models/m-gemini:generateContent", "/v1beta/v1beta/models/m-gemini:generateContent"} {
			got := l.Do(t, gateway.Call{Path: path, Body: geminiHi, NoKey: true, Header: []string{"x-goog-api-key: " + l.Key}})
			if got.Status != http.StatusOK || readGemini(t, got, false).text != fakeHello {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
	})
	t.Run("the key in the query reaches no provider and no log", func(t *testing.T) { checkGeminiQueryKey(t, l) })
	t.Run("without a key, or with a wrong one", func(t *testing.T) {
		for _, header := range [][]string{nil, {"x-goog-api-key: bardo_sk_wrong"}, {"x-goog-api-key: AIzaSomebodys"}} {
			geminiFails(t, l.Do(t, gateway.Call{Path: geminiPath("m-gemini", false), Body: geminiHi, NoKey: true, Header: header}), http.StatusUnauthorized, "invalid_api_key")
		}
	})
	t.Run("errors are in Google's form", func(t *testing.T) {
		for _, c := range []geminiErrorCase{
			{geminiPath("unheard-of", false), geminiHi, 404, "model_not_found"},
			{geminiPath("unheard-of", true), geminiHi, 404, "model_not_found"},
			{geminiPath("m-gemini", false), `{"contents":`, 400, "invalid_request"},
			{geminiPath("m-gemini", false), `{}`, 400, "invalid_request"},
			{"/v1beta/models/m-gemini:predict", geminiHi, 404, "not_found"},
			{"/v1beta/files", geminiHi, 404, "not_found"},
		} {
			geminiFails(t, l.Do(t, gateway.Call{Path: c.path, Body: c.body}), c.status, c.code)
		}
	})
	t.Run("models", func(t *testing.T) { checkGeminiModels(t, l) })
	t.Run("a count of tokens", func(t *testing.T) {
		for _, body := range []string{geminiHi, `{"generateContentRequest":{"model":"models/m-gemini",` + geminiHi[1:] + `}`} {
			var count struct{ TotalTokens int }
			l.Do(t, gateway.Call{Path: "/v1beta/models/m-gemini:countTokens", Body: body}).JSON(t, &count)
			if count.TotalTokens == 0 {
				t.Errorf("%s counts nothing", body)
			}
		}
	})
	t.Run("a stream as an array", func(t *testing.T) { checkGeminiArrays(t, l) })
	l.AssertSound(t)
}

// checkGeminiQueryKey shows the key in the query, as Google's clients may.
func checkGeminiQueryKey(t *testing.T, l geminiLab) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		path := geminiPath("m-gemini", stream)
		sign := "?"
		if strings.Contains(path, "?") {
			sign = "&"
		}
		got := l.Do(t, gateway.Call{Path: path + sign + "key=" + l.Key, Body: geminiHi, NoKey: true})
		if got.Status != http.StatusOK || readGemini(t, got, stream).text != fakeHello {
			t.Errorf("stream=%v: %d %s", stream, got.Status, got.Body)
		}
	}
	if f := l.fakes[fake.Gemini]; f.Saw(l.Key) || f.Saw("key=") {
		t.Error("a provider saw the key")
	}
}

// checkGeminiArrays asks each provider for a stream without saying how: it is an array of chunks.
func checkGeminiArrays(t *testing.T, l geminiLab) {
	t.Helper()
	for _, d := range formats {
		got := l.Do(t, gateway.Call{Path: "/v1beta/models/m-" + string(d) + ":streamGenerateContent", Body: geminiHi})
		var chunks []json.RawMessage
		got.JSON(t, &chunks)
		var h geminiContent
		for _, c := range chunks {
			h.add(t, c)
		}
		if h.text != fakeHello || h.finish != "STOP" {
			t.Errorf("%s: %s", d, got.Body)
		}
	}
}

func checkGeminiModels(t *testing.T, l geminiLab) {
	t.Helper()
	for _, path := range []string{"/v1beta/models", "/v1/models"} {
		var list struct{ Models []struct{ Name string } }
		l.Do(t, gateway.Call{Path: path, NoKey: true, Header: []string{"x-goog-api-key: " + l.Key}}).JSON(t, &list)
		if len(list.Models) != len(formats) || !strings.HasPrefix(list.Models[0].Name, "models/m-") {
			t.Errorf("%s lists %+v", path, list)
		}
	}
	var one struct {
		Name    string
		Methods []string `json:"supportedGenerationMethods"`
	}
	l.Do(t, gateway.Call{Path: "/v1beta/models/m-openai"}).JSON(t, &one)
	if one.Name != "models/m-openai" || !slices.Contains(one.Methods, "generateContent") {
		t.Errorf("got %+v", one)
	}
}

// TestGeminiAnswersAreStored: a client of Google's gets the same answer again, in either form, and its provider is not asked.
func TestGeminiAnswersAreStored(t *testing.T) {
	t.Parallel()
	f := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	f.Behave(fake.Behaviour{Text: "Cached words.", ToolCalls: []fake.ToolCall{{Name: "f", Args: `{"a":1}`}}, Thoughts: []fake.Thought{{Text: "Hm."}}})
	g := gateway.Run(t, gateway.Options{Config: quick + "pipeline: {hash: all}\n", Providers: []gateway.Provider{
		{ID: "g", Fake: f, Format: "gemini", Models: models("m", "")},
	}})
	const hi = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"temperature":0}}`
	for _, stream := range []bool{false, true} {
		f.Forget()
		call := gateway.Call{Path: geminiPath("m", stream), Body: hi, Header: []string{"x-bardo-replay: fast"}}
		first, second := g.Do(t, call), g.Do(t, call)
		if first.Body != second.Body || first.Status != http.StatusOK || second.Header.Get("X-Bardo-Cache") != "hash" {
			t.Errorf("stream=%v: %s and then, from %q,\n%s", stream, first.Body, second.Header.Get("X-Bardo-Cache"), second.Body)
		}
		if h := readGemini(t, second, stream); h.text != "Cached words." || len(h.calls) != 1 {
			t.Errorf("stream=%v: the client reads %+v", stream, h)
		}
		if n := len(f.Generations()); n != 1 {
			t.Errorf("stream=%v: the provider was asked %d times", stream, n)
		}
	}
}

// TestK93WhatIsNoAnswer: a 200 without an answer, and a reason that says so, fail over where another provider is left, and are told as its
// error where none is; a refusal, and an answer that was cut, are passed on as what they are, streamed or not.
func TestK93WhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	raw := func(body string) fake.Behaviour {
		return fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: application/json"}, Body: body}}
	}
	broken := fake.Start(t, fake.Config{Dialect: fake.Gemini, Name: "broken"})
	whole := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "whole"})
	behaviours := map[string]fake.Behaviour{
		"malformed": raw(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","index":0}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}`),
		"unsafe":    {Text: "I ", Stop: "SAFETY"},
		"cut":       {Text: "I was", Stop: "MAX_TOKENS"},
		"blocked":   raw(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}`),
		"empty":     raw(`{"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}`),
	}
	var known, spare []gateway.Model
	for name, b := range behaviours {
		for _, model := range []string{name, name + "-backed"} {
			broken.BehaveFor(model, b)
			known = append(known, gateway.Model{ID: model})
		}
		spare = append(spare, gateway.Model{ID: name + "-backed"})
	}
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "g", Fake: broken, Format: "gemini", Models: known}, {ID: "whole", Fake: whole, Models: spare},
	}})
	for _, stream := range []bool{false, true} {
		for model, want := range map[string]string{"unsafe": "content_filter", "blocked": "content_filter", "cut": "length", "cut-backed": "length", "unsafe-backed": "content_filter"} {
			if stream && model == "blocked" {
				broken.BehaveFor(model, fake.Behaviour{Raw: &fake.Raw{Status: 200, Header: []string{"content-type: text/event-stream"}, Body: "data: " + behaviours[model].Raw.Body + "\n\n"}})
			}
			got := g.Do(t, ask{dialect: fake.OpenAI, model: model, stream: stream}.call())
			if got.Status != http.StatusOK || !strings.Contains(got.Body, `"finish_reason":"`+want+`"`) || got.Header.Get("X-Bardo-Provider") != "g" {
				t.Errorf("%s, stream=%v: %d %s", model, stream, got.Status, got.Body)
			}
		}
		for _, model := range []string{"malformed", "empty"} {
			a := ask{dialect: fake.OpenAI, model: model, stream: stream}
			mustFail(t, a, g.Do(t, a.call()), http.StatusBadGateway, "upstream_error")
		}
	}
	// Streams have room for another candidate until their first content.
	for _, model := range []string{"malformed-backed", "empty-backed"} {
		a := ask{dialect: fake.OpenAI, model: model, stream: true}
		got := g.Do(t, a.call())
		if s := text(t, a, got); got.Header.Get("X-Bardo-Provider") != "whole" || s != "Hello from the fake provider." {
			t.Errorf("%s: by %q: %q", model, got.Header.Get("X-Bardo-Provider"), s)
		}
	}
}
