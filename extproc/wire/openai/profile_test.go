package openai_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
)

const askHi = `"messages":[{"role":"user","content":"hi"}]`

func defaults(p chat.Params) *chat.Profile { return &chat.Profile{Default: p} }

// answerSchema is a schema that providers enforce.
const answerSchema = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`

// effort returns a profile with an effort.
func effort(name string) *chat.Profile { return defaults(chat.Params{Effort: name}) }

// profileRows are requests with a profile, and the bodies that are sent.
var profileRows = []struct {
	about          string
	body           string
	profile        *chat.Profile
	cache          *chat.CachePlan
	o              openai.RequestOptions
	want, degraded string
}{
	{
		about: "no profile changes nothing", body: `{ "model":"m", "n": 1,"top_k": 4,"x":[1, 2],` + askHi + `}`, want: `{ "model":"m", "n": 1,"top_k": 4,"x":[1, 2],` + askHi + `}`,
	},
	{
		about: "what the client says stays", body: `{"model":"m", "temperature": 0.90,` + askHi + `}`, profile: defaults(chat.Params{Temperature: "0.3", TopP: "0.9", Seed: "7"}),
		want: `{"model":"m", "temperature": 0.90,` + askHi + `,"top_p":0.9,"seed":7}`,
	},
	{
		about: "D-20 a locked profile overrides the client, and says so", body: `{"model":"m","temperature":1.5,"reasoning_effort":"low",` + askHi + `}`,
		profile: &chat.Profile{Locked: chat.Params{Temperature: "0.1", Effort: "high"}},
		want:    `{"model":"m","temperature":0.1,"reasoning_effort":"high",` + askHi + `}`, degraded: "temperature,reasoning_effort",
	},
	{
		about: "D-25 min_p is about a top_p", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{MinP: "0.08"}),
		want: `{"model":"m",` + askHi + `,"top_p":0.92}`, degraded: "min_p:0.08->top_p:0.92",
	},
	{
		about: "D-25 top_k is about a top_p", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{TopK: "40"}),
		want: `{"model":"m",` + askHi + `,"top_p":0.9}`, degraded: "top_k:40->top_p:0.9",
	},
	{
		about: "D-25 but not where there is a top_p", body: `{"model":"m","top_p":0.5,` + askHi + `}`, profile: defaults(chat.Params{TopK: "40", MinP: "0.1"}),
		want: `{"model":"m","top_p":0.5,` + askHi + `}`, degraded: "min_p,top_k",
	},
	{
		about: "both are said where they are known", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{TopK: "40", MinP: "0.1"}),
		o: openai.RequestOptions{TopK: true, MinP: true}, want: `{"model":"m",` + askHi + `,"top_k":40,"min_p":0.1}`,
	},
	{
		about: "the client's own min_p goes where nobody knows it", body: `{"model":"m","min_p":0.2,` + askHi + `}`, profile: defaults(chat.Params{MinP: "0.1"}),
		want: `{"model":"m","min_p":0.2,` + askHi + `}`,
	},
	{
		about: "D-24 a model that fixes its sampling", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{Temperature: "0.3", TopP: "1", MinP: "0.1"}),
		o: openai.RequestOptions{FixedSampling: true}, want: `{"model":"m",` + askHi + `}`, degraded: "min_p,temperature",
	},
	{
		about: "keys of caches, expected answers, limits and ends", body: `{"model":"m",` + askHi + `}`,
		profile: &chat.Profile{MaxTokens: 100, Default: chat.Params{CacheKey: "golem-7-risk", Predicted: "a\n", Stop: []string{"x", "y"}}},
		o:       openai.RequestOptions{CacheKey: true, Predictions: true, TokensField: openai.MaxCompletionTokens, MaxStop: 1},
		want:    `{"model":"m",` + askHi + `,"prompt_cache_key":"golem-7-risk","prediction":{"type":"content","content":"a\n"},"max_completion_tokens":100,"stop":["x"]}`, degraded: "stop_sequences",
	},
	{
		about: "what is exclusive to others is lost, and keys of caches cost nobody anything", body: `{"model":"m","max_tokens":5,` + askHi + `}`,
		profile: &chat.Profile{MaxTokens: 100, Default: chat.Params{CacheKey: "k", Predicted: "a", WebSearch: new(true), TEE: true}},
		want:    `{"model":"m","max_tokens":5,` + askHi + `}`, degraded: "predicted_output,web_search,tee_mode",
	},
	{
		about: "a schema", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{Schema: jsonx.Raw(answerSchema), SchemaName: "s"}),
		want: `{"model":"m",` + askHi + `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":` + answerSchema + `,"strict":true}}}`,
	},
	{
		about: "not over the client's", body: `{"model":"m","response_format":{"type":"text"},` + askHi + `}`, profile: defaults(chat.Params{Schema: jsonx.Raw(answerSchema), SchemaName: "s"}),
		want: `{"model":"m","response_format":{"type":"text"},` + askHi + `}`,
	},
	{
		about: "a schema where none is known", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{Schema: jsonx.Raw(answerSchema)}), o: openai.RequestOptions{NoSchema: true},
		want: `{"model":"m",` + askHi + `}`, degraded: "response_schema",
	},
	{
		about: "the client's where none is known", body: `{"model":"m",` + askHi + `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}}}`, o: openai.RequestOptions{NoSchema: true},
		want: `{"model":"m",` + askHi + `}`, degraded: "response_format",
	},
	{
		about: "JSON of any form passes", body: `{"model":"m",` + askHi + `,"response_format":{"type":"json_object"}}`, profile: defaults(chat.Params{Schema: jsonx.Raw(answerSchema)}), o: openai.RequestOptions{NoSchema: true},
		want: `{"model":"m",` + askHi + `,"response_format":{"type":"json_object"}}`,
	},
	{
		about: "a loose schema where only strict ones are known", body: `{"model":"m",` + askHi + `}`, profile: defaults(chat.Params{Schema: jsonx.Raw(`{}`)}), o: openai.RequestOptions{StrictSchema: true},
		want: `{"model":"m",` + askHi + `}`, degraded: "response_schema",
	},

	{about: "K-19 an effort", body: `{"model":"m",` + askHi + `}`, profile: effort("max"), want: `{"model":"m",` + askHi + `,"reasoning_effort":"high"}`, degraded: "reasoning_effort:max->high"},
	{
		about: "K-19 the client's own effort is the nearest that the model takes", body: `{"model":"m","reasoning_effort":"xhigh",` + askHi + `}`, o: openai.RequestOptions{Efforts: []string{"low", "high"}},
		want: `{"model":"m","reasoning_effort":"high",` + askHi + `}`, degraded: "reasoning_effort:xhigh->high",
	},
	{
		about: "K-19 minimal is none where there is none", body: `{"model":"m","reasoning_effort":"minimal",` + askHi + `}`, o: openai.RequestOptions{Efforts: []string{"none", "high"}},
		want: `{"model":"m","reasoning_effort":"none",` + askHi + `}`, degraded: "reasoning_effort:minimal->none",
	},
	{
		about: "K-19 what nobody knows is named", body: `{"model":"m","reasoning_effort":"ultra",` + askHi + `}`, o: openai.RequestOptions{Efforts: []string{"low", "high"}},
		want: `{"model":"m",` + askHi + `}`, degraded: "reasoning_effort",
	},
	{
		about: "an object", body: `{"model":"m",` + askHi + `}`, profile: effort("high"), o: openai.RequestOptions{Reasoning: openai.ReasoningObject, ReasoningExtra: `"exclude":true`},
		want: `{"model":"m",` + askHi + `,"reasoning":{"effort":"high","exclude":true}}`,
	},
	{
		about: "the client's effort as an object", body: `{"model":"m","reasoning_effort":"low",` + askHi + `}`, o: openai.RequestOptions{Reasoning: openai.ReasoningObject},
		want: `{"model":"m",` + askHi + `,"reasoning":{"effort":"low"}}`,
	},
	{
		about: "the client's own object stays", body: `{"model":"m","reasoning":{"effort":"low","summary":"auto"},` + askHi + `}`, profile: effort("high"), o: openai.RequestOptions{Reasoning: openai.ReasoningObject},
		want: `{"model":"m","reasoning":{"effort":"low","summary":"auto"},` + askHi + `}`,
	},
	{
		about: "a level", body: `{"model":"m",` + askHi + `}`, profile: effort("medium"), o: openai.RequestOptions{Reasoning: openai.ThinkingLevel},
		want: `{"model":"m",` + askHi + `,"thinking_level":"high"}`, degraded: "reasoning_effort:medium->high",
	},
	{
		about: "a switch with a budget", body: `{"model":"m",` + askHi + `}`, profile: effort("max"), o: openai.RequestOptions{Reasoning: openai.EnableThinking},
		want: `{"model":"m",` + askHi + `,"enable_thinking":true,"thinking_budget":65536}`,
	},
	{
		about: "a switch turned off", body: `{"model":"m",` + askHi + `}`, profile: effort("none"), o: openai.RequestOptions{Reasoning: openai.EnableThinking},
		want: `{"model":"m",` + askHi + `,"enable_thinking":false}`,
	},
	{
		about: "K-20 an argument of the template, beside the client's", body: `{"model":"m","reasoning_effort":"none","chat_template_kwargs":{"x":1},` + askHi + `}`, o: openai.RequestOptions{Reasoning: openai.TemplateThinking},
		want: `{"model":"m","chat_template_kwargs":{"enable_thinking":false,"x":1},` + askHi + `}`,
	},
	{
		about: "K-20 an argument of the template, where there is none", body: `{"model":"m",` + askHi + `}`, profile: effort("high"), o: openai.RequestOptions{Reasoning: openai.TemplateThinking},
		want: `{"model":"m",` + askHi + `,"chat_template_kwargs":{"enable_thinking":true}}`, degraded: "reasoning_effort:high->on",
	},
	{
		about: "a word before what the user said last", body: `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"x"}}]}]}`,
		profile: effort("none"), o: openai.RequestOptions{Reasoning: openai.SlashThinking},
		want: `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"/no_think b"},{"type":"image_url","image_url":{"url":"x"}}]}]}`,
	},
	{
		about: "words for a model without any control", body: `{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`,
		profile: effort("none"), o: openai.RequestOptions{Reasoning: openai.PromptedReasoning},
		want: `{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"Answer directly. Do not explain your reasoning."},{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`, degraded: "reasoning_effort:none->prompt",
	},
	{
		about: "D-86 no words for what the client says", body: `{"model":"m","reasoning_effort":"high",` + askHi + `}`, o: openai.RequestOptions{Reasoning: openai.PromptedReasoning},
		want: `{"model":"m",` + askHi + `}`, degraded: "reasoning_effort",
	},
	{
		about: "D-86 a client that wants no thinking loses nothing", body: `{"model":"m","thinking":{"type":"disabled"},` + askHi + `}`, o: openai.RequestOptions{Reasoning: openai.PromptedReasoning},
		want: `{"model":"m",` + askHi + `}`,
	},
	{
		about: "D-86 no switch in the prompt for what the client says", body: `{"model":"m","reasoning_effort":"none",` + askHi + `}`, profile: effort("high"), o: openai.RequestOptions{Reasoning: openai.SlashThinking},
		want: `{"model":"m",` + askHi + `}`, degraded: "reasoning_effort",
	},
	{
		about: "D-86 a locked profile has its words though the client says something", body: `{"model":"m","reasoning_effort":"high",` + askHi + `}`, profile: &chat.Profile{Locked: chat.Params{Effort: "high"}}, o: openai.RequestOptions{Reasoning: openai.PromptedReasoning},
		want: `{"model":"m","messages":[{"role":"system","content":"Think through this step by step. Show your reasoning."},{"role":"user","content":"hi"}]}`, degraded: "reasoning_effort:high->prompt",
	},
	{
		about: "D-86 no words for an effort that nobody named", body: `{"model":"m",` + askHi + `}`, profile: &chat.Profile{NoGuidance: true, Default: chat.Params{Effort: "high"}}, o: openai.RequestOptions{NoEffort: true},
		want: `{"model":"m",` + askHi + `}`, degraded: "reasoning_effort",
	},
	{
		about: "no words for what is usual", body: `{"model":"m",` + askHi + `}`, profile: effort("medium"), o: openai.RequestOptions{NoEffort: true},
		want: `{"model":"m",` + askHi + `}`, degraded: "reasoning_effort",
	},

	{
		about: "marks at the end of what is stable", body: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}],"tools":[{"type":"function","function":{"name":"f"}} , {"type":"function","function":{"name":"g"} }]}`,
		cache: whole, o: openai.RequestOptions{CacheControl: true},
		want: `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":"b"}],"tools":[{"type":"function","function":{"name":"f"}} , {"type":"function","function":{"name":"g"},"cache_control":{"type":"ephemeral"} }]}`,
	},
	{
		about: "K-24 the client's own marks first", body: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b","cache_control":{}},{"type":"text","text":"c","cache_control":{}},{"type":"text","text":"d","cache_control":{}}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
		cache: whole, o: openai.RequestOptions{CacheControl: true},
		want: `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"b","cache_control":{}},{"type":"text","text":"c","cache_control":{}},{"type":"text","text":"d","cache_control":{}}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
	},
	{
		about: "a text is split where what repeats of it ends, and the end is marked", body: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"developer","content":"b\nc"},{"role":"user","content":"d"},{"role":"tool","tool_call_id":"1","content":"e"}]}`,
		cache: &chat.CachePlan{System: 3, End: true}, o: openai.RequestOptions{CacheControl: true},
		want: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b\n","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c"}]},{"role":"user","content":"d"},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"e","cache_control":{"type":"ephemeral"}}]}]}`,
	},
	{
		about: "a provider without marks gets none", body: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}]}`, cache: &chat.CachePlan{System: chat.WholePrompt, Tools: true, End: true},
		want: `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}]}`,
	},
}

var whole = &chat.CachePlan{System: chat.WholePrompt, Tools: true}

// TestAProfileIsSplicedIn: only the members that a profile sets are edited in the client's own bytes.
func TestAProfileIsSplicedIn(t *testing.T) {
	for _, row := range profileRows {
		t.Run(row.about, func(t *testing.T) {
			r := decode(t, row.body)
			r.Profile, r.Cache = row.profile, row.cache
			for range 2 { // attempts are independent
				body, names, err := openai.EncodeRequest(nil, r, row.o)
				if err != nil {
					t.Fatal(err)
				}
				if string(body) != row.want || strings.Join(names, ",") != row.degraded {
					t.Fatalf("got  %s\nwant %s\nlost %q, want %q", body, row.want, names, row.degraded)
				}
			}
		})
	}
}

// FuzzProfile: for any body, the result with a profile is valid JSON, and without a profile nothing changes.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"system","content":""},{"role":"user","content":[]}],"tools":[{}],"chat_template_kwargs":{}}`), uint8(5), "high", true)
	f.Add([]byte(`{"model":"m","messages":[[],{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":{},"reasoning":{"effort":1},"bardo":{}}`), uint8(7), "none", false)
	f.Add([]byte(`{"messages":[{"role":"developer","content":[{"type":"text","text":"x","bardo":"static"}]}],"model":"m","stop":null}`), uint8(8), "max", true)
	f.Fuzz(func(t *testing.T, body []byte, style uint8, effort string, locked bool) {
		r, err := (openai.Dialect{}).Decode(chat.Generate, nil, "", body)
		if err != nil || r.Stream {
			return
		}
		plain, names, err := openai.EncodeRequest(nil, r, openai.RequestOptions{})
		if err != nil || len(names) > 0 || r.Edit.Empty() && !bytes.Equal(plain, body) {
			t.Fatalf("%s became %s (%v, %v)", body, plain, names, err)
		}
		p := chat.Params{Temperature: "0.5", MinP: "0.1", TopK: "4", Effort: effort, Stop: []string{"\"", "\n"}, CacheKey: "k", Predicted: "p", Schema: jsonx.Raw(`{}`)}
		r.Profile, r.Cache = &chat.Profile{Default: p, MaxTokens: 7}, &chat.CachePlan{System: len(effort), Tools: true, End: locked}
		if locked {
			r.Profile.Locked = p
		}
		for _, o := range []openai.RequestOptions{
			{Reasoning: openai.ReasoningStyle(style % 9), CacheControl: true, NoSchema: true, TopK: true},
			{Reasoning: openai.ReasoningStyle(style % 9), CacheKey: true, Predictions: true, Efforts: []string{"low"}, FixedSampling: locked},
		} {
			out, _, err := openai.EncodeRequest(nil, r, o)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonx.Scan(out)
			if err != nil {
				t.Fatalf("%v: %s became %s", err, body, out)
			}
			for i := range doc.Members {
				key := doc.Members[i].Key
				if slices.ContainsFunc(doc.Members[:i], func(m jsonx.Member) bool { return m.Key == key }) && r.Doc.Find(key) < 0 {
					t.Fatalf("%s is there twice: %s", key, out)
				}
			}
		}
	})
}
