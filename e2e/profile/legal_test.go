package profile_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	anthropicprovider "bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// TestD22WhateverAProfileAddsIsLegal: a request that Anthropic takes by itself is taken with any profile, from clients of its own dialect
// and of another, by models of every kind.
func TestD22WhateverAProfileAddsIsLegal(t *testing.T) {
	s := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	r := rand.New(rand.NewPCG(5, 6))
	seen := 0
	for range 3000 {
		at := places[r.IntN(4)] // Anthropic's
		to := resolution(t, at.name, at.model, at.upstream)
		d := wire.Dialect(anthropic.Dialect{})
		body := ownBody(r)
		if r.IntN(3) == 0 {
			d, body = openai.Dialect{}, foreignBody(r)
		}
		req, err := d.Decode(chat.Generate, nil, "", body)
		if err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if status, _ := answer(t, s, encode(t, req, to, s)); status != http.StatusOK {
			continue // the client's own mistake
		}
		seen++
		req.Profile = anyProfile(r)
		call := encode(t, req, to, s)
		if status, why := answer(t, s, call); status != http.StatusOK {
			t.Fatalf("%s refuses\n%s\nof %s\nwith %+v\n%s", at.model, call.Body, body, req.Profile, why)
		}
	}
	if seen < 500 {
		t.Errorf("only %d requests were looked at", seen)
	}
}

func encode(t *testing.T, req *chat.Request, to policy.Resolution, s *fake.Server) *provider.Call {
	t.Helper()
	return call(t, anthropicprovider.Adapter{}, req, to, s)
}

func answer(t *testing.T, s *fake.Server, c *provider.Call) (status int, body string) {
	t.Helper()
	return answerAt(t, strings.TrimSuffix(s.URL, "/v1"), c)
}

func answerAt(t *testing.T, base string, c *provider.Call) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, f := range c.Header {
		req.Header.Set(f.Name, f.Value)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.String()
}

var client = &http.Client{}

// anyProfile is a part's own profile, or one that hints make up.
func anyProfile(r *rand.Rand) *chat.Profile {
	names := profile.Names()
	h := policy.Hints{Subsystem: names[r.IntN(len(names))], GolemID: "7"}
	if r.IntN(2) == 0 {
		h.Profile = &policy.Profile{
			Temperature: maybe(r, r.Float64()*2), TopP: maybe(r, r.Float64()), TopK: maybe(r, r.IntN(100)), MinP: maybe(r, r.Float64()),
			Effort: policy.Effort(r.IntN(6)), VisibleThinking: maybe(r, true), CacheControl: maybe(r, true), Seed: maybe(r, int64(1)),
			MaxTokens: r.IntN(2) * 300, Stop: pick(r, nil, []string{"END", " "}), FrequencyPenalty: maybe(r, 0.5),
			Schema: pick(r, nil, []byte(`{"type":"object","properties":{},"additionalProperties":false}`), []byte(`{"type":"object"}`)),
		}
	}
	p, _ := profile.New(profile.Settings{})
	return p.Build(&h, nil, time.Unix(0, 0)).Profile
}

func maybe[T any](r *rand.Rand, v T) *T {
	if r.IntN(2) == 0 {
		return nil
	}
	return &v
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// ownBody is a request of Anthropic's dialect, with what may and may not stand beside thinking.
func ownBody(r *rand.Rand) []byte {
	b := map[string]any{"model": "m", "max_tokens": pick(r, 50, 1024, 3000, 8000), "messages": history(r)}
	add := func(key string, of ...any) {
		if v := pick(r, append(of, nil, nil)...); v != nil {
			b[key] = v
		}
	}
	mark := map[string]any{"type": "ephemeral"}
	text := func(marked bool) map[string]any {
		block := map[string]any{"type": "text", "text": "Be brief."}
		if marked {
			block["cache_control"] = mark
		}
		return block
	}
	add("temperature", 1, 0.2)
	add("top_p", 0.5, 0.96, 1)
	add("top_k", 5)
	add("system", "Be brief.", []any{text(false)}, []any{text(true), text(true), text(false)}, []any{text(true), text(true), text(true), text(true)})
	add("thinking", map[string]any{"type": "enabled", "budget_tokens": 1024}, map[string]any{"type": "adaptive"}, map[string]any{"type": "disabled"})
	add("output_config", map[string]any{"effort": "low"}, map[string]any{"format": map[string]any{"type": "json_schema", "schema": map[string]any{"type": "object"}}})
	add("stop_sequences", []any{"x"})
	tool := map[string]any{"name": "f", "input_schema": map[string]any{"type": "object"}}
	b["tools"] = []any{tool}
	add("tool_choice", map[string]any{"type": "any"}, map[string]any{"type": "tool", "name": "f", "disable_parallel_tool_use": true}, map[string]any{"type": "auto"})
	raw, _ := json.Marshal(b) // of maps of plain values
	return raw
}

// history ends in a question, in the middle of work with tools, or in an answer that was begun.
func history(r *rand.Rand) []any {
	user := map[string]any{"role": "user", "content": "hi"}
	call := map[string]any{"type": "tool_use", "id": "t1", "name": "f", "input": map[string]any{}}
	thought := map[string]any{"type": "thinking", "thinking": "hm", "signature": fake.Sign("hm")}
	result := map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "r"}}}
	return pick(
		r, []any{user}, []any{user, map[string]any{"role": "assistant", "content": "So"}},
		[]any{user, map[string]any{"role": "assistant", "content": []any{call}}, result},
		[]any{user, map[string]any{"role": "assistant", "content": []any{thought, call}}, result},
	)
}

// foreignBody is a request of OpenAI's dialect.
func foreignBody(r *rand.Rand) []byte {
	b := map[string]any{"model": "m", "messages": []any{map[string]any{"role": "system", "content": "Be brief."}, map[string]any{"role": "user", "content": "hi"}}}
	add := func(key string, of ...any) {
		if v := pick(r, append(of, nil, nil)...); v != nil {
			b[key] = v
		}
	}
	add("max_tokens", 50, 2000)
	add("temperature", 0.2, 1, 1.8)
	add("top_p", 0.5, 0.96)
	add("reasoning_effort", "none", "minimal", "high", "xhigh", "ultra")
	add("min_p", 0.1)
	b["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}
	add("tool_choice", "required", "auto")
	raw, _ := json.Marshal(b) // of maps of plain values
	return raw
}
