package anthropic_test

import (
	"bytes"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

const (
	ask    = `"messages":[{"role":"user","content":"hi"}]`
	opened = `{"model":"m","max_tokens":4000,` + ask
)

func defaults(p chat.Params) *chat.Profile { return &chat.Profile{Default: p} }
func locked(p chat.Params) *chat.Profile   { return &chat.Profile{Locked: p} }

func think(effort string) chat.Params { return chat.Params{Effort: effort} }

// Models of the rows below.
var (
	big      = anthropic.RequestOptions{MaxOutput: 64000}
	adaptive = anthropic.RequestOptions{MaxOutput: 128000, Adaptive: true}
	thinker  = anthropic.RequestOptions{MaxOutput: 128000, Adaptive: true, Thinks: policy.ThinksByDefault, Efforts: []string{"low", "medium", "high", "xhigh", "max"}}
	always   = anthropic.RequestOptions{MaxOutput: 128000, Adaptive: true, Thinks: policy.ThinksAlways}
)

// profileRows are requests with a profile, and the bodies that are sent.
var profileRows = []struct {
	about          string
	body           string
	profile        *chat.Profile
	cache          *chat.CachePlan
	o              anthropic.RequestOptions
	want, degraded string
}{
	{about: "no profile changes nothing", body: `{ "model":"m","max_tokens":1 ,` + ask + ` }`, want: `{ "model":"m","max_tokens":1 ,` + ask + ` }`},
	{about: "sampling where the client says nothing", body: opened + `}`, profile: defaults(chat.Params{Temperature: "0.3", TopK: "40"}), want: opened + `,"temperature":0.3,"top_k":40}`},
	{about: "not beside the client's own", body: opened + `,"top_p":0.50}`, profile: defaults(chat.Params{Temperature: "0.3", TopP: "0.9"}), want: opened + `,"top_p":0.50}`, degraded: "temperature"},
	{about: "D-22 temperatures end at 1", body: opened + `}`, profile: defaults(chat.Params{Temperature: "1.5"}), want: opened + `,"temperature":1}`, degraded: "temperature:1.5->1"},
	{about: "D-25 min_p is about a top_p", body: opened + `}`, profile: defaults(chat.Params{MinP: "0.1"}), want: opened + `,"top_p":0.9}`, degraded: "min_p:0.1->top_p:0.9"},
	{about: "but not beside a temperature", body: opened + `}`, profile: defaults(chat.Params{Temperature: "0.8", MinP: "0.1"}), want: opened + `,"temperature":0.8}`, degraded: "min_p"},
	{
		about: "D-22 a budget, with room for it, and nothing beside", body: opened + `}`, o: big,
		profile: defaults(chat.Params{Effort: "high", Temperature: "0.5", TopP: "0.9", TopK: "4"}),
		want:    `{"model":"m","max_tokens":20384,` + ask + `,"thinking":{"type":"enabled","budget_tokens":16384}}`, degraded: "top_k,temperature,top_p",
	},
	{about: "D-22 as much as there is room for", body: opened + `}`, o: anthropic.RequestOptions{MaxOutput: 8000}, profile: defaults(think("high")), want: `{"model":"m","max_tokens":8000,` + ask + `,"thinking":{"type":"enabled","budget_tokens":4000}}`, degraded: "reasoning_effort:high->budget_tokens:4000"},
	{about: "D-22 without room there is none", body: `{"model":"m","max_tokens":500,` + ask + `}`, profile: defaults(think("high")), want: `{"model":"m","max_tokens":500,` + ask + `}`, degraded: "reasoning_effort"},
	{about: "D-22 none is nothing", body: opened + `}`, o: big, profile: defaults(think("none")), want: opened + `}`},
	{about: "D-22 one that thinks when it is told to is told nothing", body: opened + `}`, o: adaptive, profile: defaults(think("none")), want: opened + `}`},
	{about: "D-22 a model that thinks unless it is told not to is told so", body: opened + `}`, o: thinker, profile: defaults(think("none")), want: opened + `,"thinking":{"type":"disabled"}}`},
	{about: "D-22 and the client's effort goes, which may be too high for that", body: opened + `,"output_config":{"effort":"max"}}`, o: thinker, profile: locked(think("none")), want: opened + `,"thinking":{"type":"disabled"}}`, degraded: "effort"},
	{about: "D-22 one that always thinks is to think little", body: opened + `}`, o: always, profile: defaults(think("none")), want: opened + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}`, degraded: "reasoning_effort:none->low"},
	{about: "D-22 and takes no tool that must be used", body: opened + `,"tool_choice":{"type":"tool","name":"f"}}`, o: always, want: opened + `}`, degraded: "tool_choice"},
	{about: "D-22 as others do", body: opened + `,"tool_choice":{"type":"tool","name":"f"}}`, o: thinker, want: opened + `,"tool_choice":{"type":"tool","name":"f"}}`},
	{about: "K-19 xhigh, where the model has it", body: opened + `}`, o: thinker, profile: defaults(think("xhigh")), want: opened + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"xhigh"}}`},
	{about: "K-19 and the least, for what is lower than all", body: opened + `}`, o: anthropic.RequestOptions{Adaptive: true, Efforts: []string{"high"}}, profile: defaults(think("low")), want: opened + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, degraded: "reasoning_effort:low->high"},
	{about: "D-22 adaptive models take an effort", body: opened + `,"output_config":{"x":1}}`, o: adaptive, profile: defaults(think("max")), want: opened + `,"output_config":{"x":1,"effort":"max"},"thinking":{"type":"adaptive"}}`},
	{about: "K-19 and the highest below what they have", body: opened + `}`, o: anthropic.RequestOptions{Adaptive: true, Efforts: []string{"low", "high"}}, profile: defaults(think("max")), want: opened + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, degraded: "reasoning_effort:max->high"},
	{about: "K-18 summaries can be asked for", body: opened + `}`, o: adaptive, profile: defaults(chat.Params{Effort: "low", Visible: new(true)}), want: opened + `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
	{about: "K-18 and refused", body: opened + `}`, o: adaptive, profile: defaults(chat.Params{Effort: "low", Visible: new(false)}), want: opened + `,"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"low"}}`},
	{about: "D-20 a default gives way to what the client says and thinking forbids", body: opened + `,"temperature":0.2}`, o: big, profile: defaults(think("high")), want: opened + `,"temperature":0.2}`, degraded: "reasoning_effort"},
	{about: "D-20 so it does to a tool that must be used", body: opened + `,"tool_choice":{"type":"any"}}`, o: big, profile: defaults(think("high")), want: opened + `,"tool_choice":{"type":"any"}}`, degraded: "reasoning_effort"},
	{
		about: "D-20 a locked profile does not", body: opened + `,"temperature":0.2,"top_k":3,"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`, o: adaptive, profile: locked(chat.Params{Effort: "max", Temperature: "0.1"}),
		want: opened + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}}`, degraded: "temperature,top_k,tool_choice",
	},
	{about: "D-20 nor to the client's own budget", body: opened + `,"thinking":{"type":"enabled","budget_tokens":1024}}`, o: big, profile: locked(think("low")), want: `{"model":"m","max_tokens":5024,` + ask + `,"thinking":{"type":"enabled","budget_tokens":1024}}`, degraded: "effort"},
	{about: "the client's own thinking keeps a default temperature away", body: opened + `,"thinking":{"type":"adaptive"}}`, o: adaptive, profile: defaults(chat.Params{Effort: "high", Temperature: "0.3"}), want: opened + `,"thinking":{"type":"adaptive"}}`, degraded: "temperature"},
	{
		about: "K-14 no budget in the middle of a turn that did not begin with thinking", o: big, profile: defaults(think("high")),
		body: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}]}`,
		want: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}]}`, degraded: "reasoning_effort",
	},
	{about: "a model that does not think is asked in the prompt", body: opened + `,"system":[{"type":"text","text":"a"}]}`, o: anthropic.RequestOptions{NoThinking: true}, profile: defaults(think("high")), want: opened + `,"system":[{"type":"text","text":"Think through this step by step. Show your reasoning."},{"type":"text","text":"a"}]}`, degraded: "reasoning_effort:high->prompt"},
	{about: "a model that fixes its sampling", body: opened + `}`, o: anthropic.RequestOptions{FixedSampling: true}, profile: defaults(chat.Params{Temperature: "0.3", TopK: "4", MinP: "0.1"}), want: opened + `}`, degraded: "temperature,min_p,top_k"},
	{about: "D-24 it loses the client's own", body: opened + `,"temperature":0.20,"top_p":1.0,"top_k":5}`, o: anthropic.RequestOptions{FixedSampling: true}, want: opened + `,"top_p":1.0}`, degraded: "temperature,top_k"},
	{about: "D-24 beside a profile, too", body: opened + `,"temperature":0.20}`, o: anthropic.RequestOptions{FixedSampling: true, Adaptive: true}, profile: defaults(chat.Params{Temperature: "0.3", Effort: "low"}), want: opened + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}`, degraded: "temperature"},
	{
		about: "what it has no words for", body: opened + `}`, profile: defaults(chat.Params{Seed: "1", PresencePenalty: "0.5", FrequencyPenalty: "0", Predicted: "x", WebSearch: new(true), TEE: true, CacheKey: "k", Stop: []string{" ", "END"}}),
		want: opened + `,"stop_sequences":["END"]}`, degraded: "predicted_output,seed,presence_penalty,web_search,tee_mode,stop_sequences",
	},
	{about: "a schema that it enforces", body: opened + `}`, o: anthropic.RequestOptions{StructuredOutputs: true}, profile: defaults(chat.Params{Schema: jsonx.Raw(`{"type":"string"}`)}), want: opened + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"string"}}}}`},
	{about: "a schema that it does not enforce", body: opened + `}`, profile: defaults(chat.Params{Schema: jsonx.Raw(`{"type":"string"}`)}), want: opened + `}`, degraded: "response_schema"},
	{
		about: "a mark on what stands last, and something behind it", body: opened + `,"system":"a"}`, cache: whole, profile: defaults(chat.Params{Temperature: "0.3"}),
		want: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"temperature":0.3}`,
	},
	{
		about: "marks at the end of what is stable", body: opened + `,"system":"a","tools":[{"name":"f"},{"name":"g"}]}`, cache: whole,
		want: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f"},{"name":"g","cache_control":{"type":"ephemeral"}}]}`,
	},
	{
		about: "K-24 none beyond the client's four", body: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c","cache_control":{"type":"ephemeral"}},{"type":"text","text":"d"}],"tools":[{"name":"f"}]}`, cache: whole,
		want: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c","cache_control":{"type":"ephemeral"}},{"type":"text","text":"d","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f"}]}`,
	},
	{
		about: "a text is split where what repeats of it ends", body: opened + `,"system":"a\n\u00e9\nnow"}`, cache: &chat.CachePlan{System: 5},
		want: opened + `,"system":[{"type":"text","text":"a\n\u00e9\n","cache_control":{"type":"ephemeral"}},{"type":"text","text":"now"}]}`,
	},
	{
		about: "so is a block", body: opened + `,"system":[{"type":"text","text":"a"}, {"type":"text","text":"b\nc"},{"type":"text","text":"d"}]}`, cache: &chat.CachePlan{System: 3},
		want: opened + `,"system":[{"type":"text","text":"a"}, {"type":"text","text":"b\n","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c"},{"type":"text","text":"d"}]}`,
	},
	{
		about: "no block of white space comes of it", body: opened + `,"system":[{"type":"text","text":"a"},{"type":"text","text":"\n\nb\n "}]}`, cache: &chat.CachePlan{System: 2},
		want: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"\n\nb\n "}]}`,
	},
	{
		about: "nor behind the mark", body: opened + `,"system":[{"type":"text","text":"b\n "}]}`, cache: &chat.CachePlan{System: 2},
		want: opened + `,"system":[{"type":"text","text":"b\n ","cache_control":{"type":"ephemeral"}}]}`,
	},
	{
		about: "a block of another form is not split", body: opened + `,"system":[{"type":"text","text":"a"},{"text":"b\nc","type":"text"}]}`, cache: &chat.CachePlan{System: 3},
		want: opened + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"text":"b\nc","type":"text"}]}`,
	},
	{about: "nothing repeats", body: opened + `,"system":"a","tools":[{"name":"f"}]}`, cache: &chat.CachePlan{}, want: opened + `,"system":"a","tools":[{"name":"f"}]}`},
	{
		about: "D-35 what is too short for the provider's cache", body: opened + `,"system":"a\nb","tools":[{"name":"f"}]}`, cache: &chat.CachePlan{System: 2, Tools: true, End: true}, o: anthropic.RequestOptions{MinCache: 1024},
		want: opened + `,"system":"a\nb","tools":[{"name":"f"}]}`,
	},
	{
		about: "words before a split text", body: opened + `,"system":"a\nb"}`, o: anthropic.RequestOptions{NoThinking: true}, profile: defaults(think("high")), cache: &chat.CachePlan{System: 2},
		want: opened + `,"system":[{"type":"text","text":"Think through this step by step. Show your reasoning.\n\na\n","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}`, degraded: "reasoning_effort:high->prompt",
	},
	{
		about: "the end of a conversation", body: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`, cache: &chat.CachePlan{End: true},
		want: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]}]}`,
	},
	{
		about: "the end is a result", body: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}]}`, cache: &chat.CachePlan{End: true},
		want: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x","cache_control":{"type":"ephemeral"}}]}]}`,
	},
	{
		about: "an answer that the client began is not marked", body: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, cache: &chat.CachePlan{End: true},
		want: `{"model":"m","max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`,
	},
}

var whole = &chat.CachePlan{System: chat.WholePrompt, Tools: true}

// TestAProfileIsSplicedIn: only the members that a profile sets, or that conflict with them, are edited in the client's own bytes.
func TestAProfileIsSplicedIn(t *testing.T) {
	for _, row := range profileRows {
		t.Run(row.about, func(t *testing.T) {
			r, err := (anthropic.Dialect{}).Decode(chat.Generate, nil, "", []byte(row.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Profile, r.Cache = row.profile, row.cache
			for range 2 { // attempts are independent
				body, names, err := anthropic.EncodeRequest(nil, r, row.o)
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

// TestTokensAreCountedWithoutAProfile: the API counts no sampling parameters.
func TestTokensAreCountedWithoutAProfile(t *testing.T) {
	const body = `{"model":"m",` + ask + `}`
	r, err := (anthropic.Dialect{}).Decode(chat.CountTokens, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Profile = defaults(chat.Params{Temperature: "0.3", Effort: "high"})
	if out, names, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{}); err != nil || string(out) != body || len(names) > 0 {
		t.Errorf("got %s, %v, %v", out, names, err)
	}
}

// FuzzProfile: for any body, the result with a profile is valid JSON, and without a profile nothing changes.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":5000,"system":[{"type":"text","text":"","bardo":"static"}],"messages":[{"role":"user","content":[]}],"tools":[{}]}`), "high", true)
	f.Add([]byte(`{"max_tokens":1,"output_config":{"effort":1},"thinking":{},"tool_choice":{"type":"tool"},"model":"m","messages":[[]],"bardo":{}}`), "max", false)
	f.Fuzz(func(t *testing.T, body []byte, effort string, locks bool) {
		r, err := (anthropic.Dialect{}).Decode(chat.Generate, nil, "", body)
		if err != nil {
			return
		}
		plain, names, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{})
		if err != nil || len(names) > 0 || r.Edit.Empty() && !bytes.Equal(plain, body) {
			t.Fatalf("%s became %s (%v, %v)", body, plain, names, err)
		}
		p := chat.Params{Temperature: "0.5", MinP: "0.1", TopK: "4", Effort: effort, Stop: []string{"\"", "\n"}, Visible: &locks, Schema: jsonx.Raw(`{}`)}
		r.Profile, r.Cache = defaults(p), &chat.CachePlan{System: len(effort), Tools: true, End: locks}
		if locks {
			r.Profile.Locked = p
		}
		for _, o := range []anthropic.RequestOptions{
			{MaxOutput: 64000}, {Adaptive: true, StructuredOutputs: true, StripThinking: anthropic.StripUnsigned}, {NoThinking: true, FixedSampling: true},
		} {
			out, _, err := anthropic.EncodeRequest(nil, r, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := jsonx.Scan(out); err != nil {
				t.Fatalf("%v: %s became %s", err, body, out)
			}
		}
	})
}
