package cache_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
)

var dialects = map[chat.Dialect]wire.Dialect{ //nolint:exhaustive // embeddings are not stored
	chat.OpenAI: openai.Dialect{}, chat.Anthropic: anthropic.Dialect{}, chat.Completions: completions.Dialect{},
	chat.Responses: responses.Dialect{}, chat.Gemini: gemini.Dialect{},
}

func decode(d chat.Dialect, body string, h ...header.Field) (*chat.Request, error) {
	return dialects[d].Decode(chat.Generate, h, "", []byte(body))
}

func keyOf(t testing.TB, d chat.Dialect, body string, h ...header.Field) cache.Key {
	t.Helper()
	r, err := decode(d, body, h...)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if r.Turn != nil { // stored requests never have an endpoint's own turn
		r = r.Turn
	}
	return cache.KeyOf("tenant", r)
}

// inOpenAI and inAnthropic are the same question in both dialects: everything that both can say.
const (
	inOpenAI = `{"model":"m","max_tokens":100,"temperature":0.2,"top_p":0.9,"stop":["x","y"],"user":"u","reasoning_effort":"low",
"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"f"}},
"tools":[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","properties":{"a":{"type":"integer","maximum":1e2}}},"strict":true}}],
"messages":[{"role":"system","content":"be brief"},
{"role":"user","content":[{"type":"text","text":"look é"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]},
{"role":"assistant","content":"I call","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1, \"b\":[true,null]}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":""}}]},
{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"two"}]},
{"role":"user","content":"and now?"}]}`
	inAnthropic = `{"max_tokens":100,"model":"m","stream":true,"temperature":0.20,"top_p":9e-1,"stop_sequences":["x","y"],"metadata":{"user_id":"u"},
"output_config":{"effort":"low"},"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
"tools":[{"name":"f","description":"does","input_schema":{"properties":{"a":{"maximum":100,"type":"integer"}},"type":"object"},"strict":true,"cache_control":{"type":"ephemeral"}}],
"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
"messages":[{"role":"user","content":[{"type":"text","text":"look \u00e9"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},
{"role":"assistant","content":[{"type":"text","text":"I call"},{"type":"tool_use","id":"c1","name":"f","input":{"b":[true,null],"a":1.0}},{"type":"tool_use","id":"c2","name":"f","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"two"}]},{"type":"text","text":"and now?"}]}]}`
)

// inResponses is that question in Responses, which has no stop sequences.
const inResponses = `{"model":"m","max_output_tokens":100,"temperature":2e-1,"top_p":0.9,"user":"u","reasoning":{"effort":"low"},
"parallel_tool_calls":false,"tool_choice":{"type":"function","name":"f"},
"tools":[{"type":"function","name":"f","description":"does","parameters":{"type":"object","properties":{"a":{"type":"integer","maximum":1e2}}},"strict":true}],
"instructions":"be brief",
"input":[{"role":"user","content":[{"type":"input_text","text":"look é"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},
{"role":"assistant","content":"I call"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\": 1, \"b\":[true,null]}"},
{"type":"function_call","call_id":"c2","name":"f","arguments":""},
{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},
{"role":"user","content":"and now?"}]}`

func TestD33EqualRequestsHaveOneKeyInEveryDialect(t *testing.T) {
	if keyOf(t, chat.OpenAI, strings.Replace(inOpenAI, `"stop":["x","y"],`, "", 1)) != keyOf(t, chat.Responses, inResponses) {
		t.Error("two keys in OpenAI's own formats")
	}
	if keyOf(t, chat.OpenAI, inOpenAI) != keyOf(t, chat.Anthropic, inAnthropic, header.Field{Name: "anthropic-version", Value: "2023-06-01"}) {
		t.Error("two keys")
	}
	if keyOf(t, chat.Completions, `{"model":"m","prompt":"hi"}`) != keyOf(t, chat.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`) {
		t.Error("two keys of a prompt and a turn")
	}
}

// A row is two ways to write one request, or two requests.
func TestKeys(t *testing.T) {
	const turn = `,"messages":[{"role":"user","content":"hi"}]}`
	tests := []struct {
		name string
		d    chat.Dialect
		a, b string
		same bool
	}{
		{"white space and order", chat.OpenAI, `{"model":"m","seed":1` + turn, "{ \"messages\" : [ {\"content\":\"hi\",\n\"role\":\"user\"} ], \"seed\":1,\"model\":\"m\"}", true},
		{"spelling of numbers", chat.OpenAI, `{"model":"m","temperature":0.2` + turn, `{"model":"m","temperature":20e-2` + turn, true},
		{"numbers that are equal as floats", chat.OpenAI, `{"model":"m","seed":9007199254740993` + turn, `{"model":"m","seed":9007199254740992` + turn, false},
		{"escapes", chat.OpenAI, `{"model":"m","user":"a/b"` + turn, `{"model":"m","user":"\u0061\/b"` + turn, true},
		{"halves of surrogate pairs", chat.OpenAI, `{"model":"m","user":"\ud800"` + turn, `{"model":"m","user":"\ud801"` + turn, false},
		{"an unknown member's order", chat.OpenAI, `{"model":"m","x":{"a":1,"b":[2]}` + turn, `{"x":{"b":[2.0],"a":1},"model":"m"` + turn, true},
		{"an unknown member's value", chat.OpenAI, `{"model":"m","x":{"a":1}` + turn, `{"model":"m","x":{"a":2}` + turn, false},
		{"null is nothing", chat.OpenAI, `{"model":"m","seed":null,"x":null` + turn, `{"model":"m"` + turn, true},
		{"the model", chat.OpenAI, `{"model":"m"` + turn, `{"model":"n"` + turn, false},
		{"streamed", chat.OpenAI, `{"model":"m"` + turn, `{"model":"m","stream":true,"stream_options":{"include_usage":true}` + turn, true},
		{"streamed, with a native member", chat.OpenAI, `{"model":"m","logprobs":true` + turn, `{"model":"m","logprobs":true,"stream":true` + turn, false},
		{"n", chat.OpenAI, `{"model":"m","n":2` + turn, `{"model":"m","n":3` + turn, false},
		{"one choice, stated or by default", chat.OpenAI, `{"model":"m","n":1` + turn, `{"model":"m"` + turn, true},
		{"the other name of the limit", chat.OpenAI, `{"model":"m","max_tokens":5` + turn, `{"model":"m","max_completion_tokens":5` + turn, true},
		{"two limits", chat.OpenAI, `{"model":"m","max_tokens":5,"max_completion_tokens":6` + turn, `{"model":"m","max_tokens":4,"max_completion_tokens":6` + turn, false},
		{"text in a part", chat.OpenAI, `{"model":"m"` + turn, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, true},
		{"a hint to the gateway", chat.OpenAI, `{"model":"m","bardo":{"golem_id":"g"}` + turn, `{"model":"m"` + turn, true},
		{"a part's unknown member", chat.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi","name":"a"}]}`, `{"model":"m","messages":[{"role":"user","content":"hi","name":"b"}]}`, false},
		{"a member twice", chat.OpenAI, `{"model":"m","metadata":{"a":"1","a":"2"}` + turn, `{"model":"m","metadata":{"a":"1"}` + turn, false},
		{"one system prompt or two", chat.OpenAI, `{"model":"m","messages":[{"role":"system","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"hi"}]}`, `{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"hi"}]}`, false},
		{"text that could be two", chat.OpenAI, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}]}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"bc"}]}]}`, false},
		{"marks of a prompt cache", chat.Anthropic, `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]` + turn, `{"model":"m","max_tokens":5,"system":"s"` + turn, true},
		{"adaptive thinking", chat.Anthropic, `{"model":"m","max_tokens":5,"thinking":{"type":"adaptive"}` + turn, `{"model":"m","max_tokens":5` + turn, false},
		{"a tool that runs at the provider", chat.Anthropic, `{"model":"m","max_tokens":5,"tools":[{"type":"web_search_20250305","name":"w","max_uses":1}]` + turn, `{"model":"m","max_tokens":5,"tools":[{"type":"web_search_20250305","name":"w","max_uses":2}]` + turn, false},
		{"a turn of the assistant's in two messages", chat.Responses, `{"model":"m","input":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]}`, `{"model":"m","input":[{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}]}`, false},
		{"stored at the provider", chat.Responses, `{"model":"m","input":"hi","store":true}`, `{"model":"m","input":"hi"}`, false},
		{"an earlier response", chat.Responses, `{"model":"m","input":"hi","previous_response_id":"a"}`, `{"model":"m","input":"hi","previous_response_id":"b"}`, false},
		{"members with their default values", chat.Responses, `{"model":"m","store":false,"input":[{"role":"user","content":[{"type":"input_image","detail":"auto","image_url":"u"}]}]}`, `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}]}`, true},
		{"a custom tool", chat.Responses, `{"model":"m","input":"hi","tools":[{"type":"custom","name":"input"}]}`, `{"model":"m","input":"hi","tools":[{"type":"function","name":"input","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}]}`, false},
		{"a message, as a text or an item", chat.Responses, `{"model":"m","input":"hi"}`, `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, true},
		{"deep values", chat.OpenAI, `{"model":"m","x":` + nested(100, `{"a":1}`) + turn, `{"model":"m","x":` + nested(100, `{"a":2}`) + turn, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := keyOf(t, tt.d, tt.a) == keyOf(t, tt.d, tt.b); got != tt.same {
				t.Errorf("one key: %v, want %v", got, tt.same)
			}
		})
	}
}

func nested(n int, inner string) string {
	return strings.Repeat("[", n) + inner + strings.Repeat("]", n)
}

func TestHeadersAndQueryChangeTheKey(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	beta := func(v string) header.Field { return header.Field{Name: "anthropic-beta", Value: v} }
	plain := keyOf(t, chat.Anthropic, body)
	ab := keyOf(t, chat.Anthropic, body, beta("a,b"))
	if plain == ab || ab == keyOf(t, chat.Anthropic, body, beta("a")) {
		t.Error("betas do not count")
	}
	if ab != keyOf(t, chat.Anthropic, body, beta("b"), beta("a,b")) {
		t.Error("betas are a set")
	}
	if plain == keyOf(t, chat.Anthropic, body, header.Field{Name: "anthropic-version", Value: "2024-01-01"}) {
		t.Error("the version does not count")
	}
	r, err := decode(chat.Anthropic, body)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*chat.Request)) cache.Key {
		o := *r
		change(&o)
		return cache.KeyOf("tenant", &o)
	}
	if cache.KeyOf("other", r) == plain {
		t.Error("K-60 two tenants have one key")
	}
	for name, change := range map[string]func(*chat.Request){
		"operation": func(r *chat.Request) { r.Op = chat.CountTokens },
		"provider":  func(r *chat.Request) { r.Provider = "p" },
		"query":     func(r *chat.Request) { r.Query = "a=b" },
	} {
		if changed(change) == plain {
			t.Errorf("the %s does not count", name)
		}
	}
}

// unkeyed are the fields of a conversation that do not make another question.
var unkeyed = map[string]string{
	"Conversation.Unmapped": "a request that has any is keyed by its own JSON",
	"Conversation.Strange":  "they are among the unmapped",
	"Conversation.Words":    "for messages to the caller",
	"Message.At":            "for messages to the caller",
	"Part.At":               "for messages to the caller",
	"Part.CacheControl":     "a mark for the provider's prompt cache",
	"Tool.CacheControl":     "a mark for the provider's prompt cache",
	"Params.MarkCache":      "marks for the provider's prompt cache",
	"Params.CacheKey":       "a key of the provider's prompt cache",
}

// TestEveryFieldOfAConversationChangesTheKey checks every field of the canonical form by reflection: a new field must change the key, or be in
// the list above with its reason.
func TestEveryFieldOfAConversationChangesTheKey(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	key := func(c chat.Conversation) cache.Key {
		r, err := decode(chat.OpenAI, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Conv = &c
		return cache.KeyOf("tenant", r)
	}
	// Every list has one element, whose fields are then varied in turn.
	full := func() chat.Conversation {
		part := chat.Part{Parts: []chat.Part{{}}}
		return chat.Conversation{
			System: []chat.Part{part}, Messages: []chat.Message{{Parts: []chat.Part{part}}}, Tools: []chat.Tool{{}},
		}
	}
	c := full()
	if seen := vary(t, reflect.ValueOf(&c).Elem(), key(full()), func() cache.Key { return key(c) }); seen < 40 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

// TestD32EveryFieldOfAProfileChangesTheKey: the profile's parameters reach the provider as the client's do.
func TestD32EveryFieldOfAProfileChangesTheKey(t *testing.T) {
	r, err := decode(chat.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	without := cache.KeyOf("tenant", r)
	r.Profile = &chat.Profile{}
	before := cache.KeyOf("tenant", r)
	if before == without {
		t.Error("an empty profile is none")
	}
	if seen := vary(t, reflect.ValueOf(r.Profile).Elem(), before, func() cache.Key { return cache.KeyOf("tenant", r) }); seen < 40 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

// vary gives every field below v another value in turn, and looks whether the key is another one, too.
func vary(t *testing.T, v reflect.Value, before cache.Key, touch func() cache.Key) (seen int) {
	t.Helper()
	var walk func(v reflect.Value, name string, touch func() cache.Key)
	walk = func(v reflect.Value, name string, touch func() cache.Key) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, touch)
			}
			return
		}
		if v.Kind() == reflect.Slice && v.Len() > 0 && v.Index(0).Kind() == reflect.Struct {
			walk(v.Index(0), name, touch)
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.Set(another(t, v, name))
		_, excused := unkeyed[name]
		if counts := touch() != before; counts == excused {
			t.Errorf("%s counts: %v, excused: %v", name, counts, excused)
		}
		v.Set(old)
		seen++
	}
	walk(v, "", touch)
	return seen
}

// another is a value that differs from v.
func another(t *testing.T, v reflect.Value, name string) reflect.Value {
	t.Helper()
	n := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		n.SetString("7")
	case reflect.Bool:
		n.SetBool(true)
	case reflect.Int, reflect.Int64:
		n.SetInt(7)
	case reflect.Float64:
		n.SetFloat(7)
	case reflect.Uint8:
		n.SetUint(7)
	case reflect.Pointer:
		n = reflect.New(v.Type().Elem())
	case reflect.Slice:
		n = reflect.MakeSlice(v.Type(), 1, 1)
		if e := n.Index(0); e.Kind() == reflect.Uint8 {
			e.SetUint('7')
		} else if e.Kind() == reflect.String {
			e.SetString("7")
		}
	case reflect.Map:
		n = reflect.MakeMap(v.Type())
		n.SetMapIndex(reflect.ValueOf("a"), reflect.ValueOf("b"))
	default:
		t.Fatalf("%s is of a kind that this test does not know: %s", name, v.Kind())
	}
	return n
}

// ignored are members whose value makes no other question.
var ignored = map[string]bool{"stream": true, "cache_control": true, "bardo": true}

// TestEveryValueOfARequestChangesTheKey changes every value of requests that the canonical form covers, one at a time, and takes every
// member: if the canonical form lost a value, two questions would have one key.
func TestEveryValueOfARequestChangesTheKey(t *testing.T) {
	for _, q := range []struct {
		d    chat.Dialect
		body string
	}{{chat.OpenAI, inOpenAI}, {chat.Anthropic, inAnthropic}, {chat.Responses, inResponses}} {
		d, body := q.d, q.body
		before := keyOf(t, d, body)
		n := 0
		mutate(t, body, func(path []string, changed string) {
			if slices.ContainsFunc(path, func(p string) bool { return ignored[strings.TrimPrefix(p, "-")] }) {
				return
			}
			r, err := decode(d, changed)
			if err != nil {
				return // it is no request any more
			}
			n++
			if cache.KeyOf("tenant", r) == before && !sameAnyway[path[len(path)-1]] {
				t.Errorf("%s: %s does not count:\n%s", d, strings.Join(path, "."), changed)
			}
		})
		if n < 60 {
			t.Errorf("%s: only %d changes were tried", d, n)
		}
	}
}

// sameAnyway are the members that may go: a call of a tool with nothing is a call with an empty object.
var sameAnyway = map[string]bool{"-arguments": true, "-input": true}

// mutate yields a JSON text with each of its scalars replaced, and with each of its members and elements left out ("-name").
func mutate(t *testing.T, body string, yield func(path []string, changed string)) {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(body), &root); err != nil {
		t.Fatal(err)
	}
	out := func(path []string) {
		b, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		yield(path, string(b))
	}
	var walk func(v any, path []string, set func(any))
	walk = func(v any, path []string, set func(any)) {
		try := func(n any) {
			set(n)
			out(path)
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(keys(v)) {
				m := v[k]
				walk(m, append(slices.Clone(path), k), func(n any) { v[k] = n })
				delete(v, k)
				out(append(slices.Clone(path), "-"+k))
				v[k] = m
			}
			v["unheard_of"] = "x"
			out(append(slices.Clone(path), "+unheard_of"))
			delete(v, "unheard_of")
		case []any:
			for i, e := range v {
				walk(e, append(slices.Clone(path), fmt.Sprint(i)), func(n any) { v[i] = n })
			}
			if len(v) > 0 {
				try(v[1:])
			}
		case string:
			try(v + "x")
			try(strings.ToUpper(v) + "é")
		case float64:
			try(v + 1)
			try(v / 2)
		case bool:
			try(!v)
		case nil:
			try("x")
		}
	}
	walk(root, nil, func(n any) { root = n })
}

func keys(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// FuzzKey: a request and the same request written otherwise have one key, and a request with one more word has another.
func FuzzKey(f *testing.F) {
	f.Add(inOpenAI, false, uint64(1))
	f.Add(inAnthropic, true, uint64(2))
	f.Add(`{"model":"m","x":[1,{"b":null,"a":"\ud83d\ude00"}],"messages":[{"role":"user","content":"hi"}]}`, false, uint64(3))
	f.Fuzz(func(t *testing.T, body string, other bool, seed uint64) {
		d := chat.OpenAI
		if other {
			d = chat.Anthropic
		}
		r, err := decode(d, body)
		if err != nil {
			return
		}
		key := cache.KeyOf("tenant", r)
		rng := rand.New(rand.NewPCG(seed, seed))
		again, err := decode(d, rewritten(t, body, rng))
		if err != nil {
			t.Fatalf("rewritten, it is no request: %v", err)
		}
		if cache.KeyOf("tenant", again) != key {
			t.Errorf("another key of\n%s\n%s", body, rewritten(t, body, rng))
		}
		more := strings.Replace(strings.TrimSpace(body), "{", `{"one_more_word":1,`, 1)
		if r, err := decode(d, more); err == nil && cache.KeyOf("tenant", r) == key {
			t.Errorf("the same key with one more member: %s", more)
		}
	})
}
