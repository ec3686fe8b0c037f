package compress_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/policy"
)

// reading is a conversation in Anthropic's format in which a file is read again after it changed, and n short answers follow. The client sets a cache mark at its
// last message.
func reading(answers int, ttl string) string {
	var messages []any
	say := func(role string, content any) {
		messages = append(messages, map[string]any{"role": role, "content": content})
	}
	say("user", "begin")
	use := func(i int, path, result string) {
		id := fmt.Sprintf("toolu_%d", i)
		say("assistant", []any{map[string]any{"type": "tool_use", "id": id, "name": "Read", "input": map[string]any{"path": path}}})
		say("user", []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": result}})
	}
	use(0, "a", long("old"))
	use(1, "a", long("new"))
	use(2, "1h", strings.Repeat(long("much"), 4))
	for i := range answers {
		say("assistant", fmt.Sprint("Yes ", i))
		say("user", fmt.Sprint("And ", i, "?"))
	}
	last := messages[len(messages)-1].(map[string]any)
	if text, ok := last["content"].(string); ok {
		last["content"] = []any{map[string]any{"type": "text", "text": text, "cache_control": map[string]any{"type": "ephemeral", "ttl": ttl}}}
	}
	raw, _ := json.Marshal(map[string]any{"model": "m", "max_tokens": 9, "messages": messages, "system": "You help."})
	return string(raw)
}

func claude(x *pipeline.Exchange) {
	x.Found = []policy.Resolution{{Provider: "p", Model: "m", MinCache: 1024, Prices: policy.Prices{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000}}}
}

// TestD34WhatTheCacheHasForgottenIsShortenedAtNoCost: a change that would not pay while the provider's cache has the prompt is made when the conversation
// continues after the cache's lifetime, which a client may set to an hour, and is kept from then on.
func TestD34WhatTheCacheHasForgottenIsShortenedAtNoCost(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	clock.Replace(func() time.Time { return now })
	t.Cleanup(func() { clock.Replace(nil) })
	for _, row := range []struct {
		ttl   string
		pause time.Duration
		gone  bool
	}{{"5m", 0, false}, {"5m", 4 * time.Minute, false}, {"5m", 6 * time.Minute, true}, {"1h", 6 * time.Minute, false}, {"1h", 61 * time.Minute, true}} {
		l := compress.Layer{Memory: compress.NewMemory()}
		sent := func(answers int) bool {
			x := send(t, l, nil, chat.Anthropic, reading(answers, row.ttl), claude)
			return strings.Contains(string(x.Request.Doc.Bytes), "[Out of date")
		}
		if sent(5) {
			t.Error("it is shortened although that costs more than it saves")
		}
		now = now.Add(row.pause)
		if got := sent(6); got != row.gone {
			t.Errorf("%s, after %v: shortened is %v", row.ttl, row.pause, got)
		}
		if got := sent(7); got != row.gone {
			t.Errorf("%s, after %v, the turn after: shortened is %v", row.ttl, row.pause, got)
		}
	}
}

// TestD34PricesDecideWhenAHistoryIsShortened: immediately without a prompt cache; the cheaper it is to write to the cache again, the earlier.
func TestD34PricesDecideWhenAHistoryIsShortened(t *testing.T) {
	first := func(p policy.Prices, minCache int) int {
		for n := 1; n < 120; n++ {
			x := send(t, compress.Layer{}, nil, chat.Anthropic, reading(n, "5m"), func(x *pipeline.Exchange) {
				x.Found = []policy.Resolution{{Provider: "p", Model: "m", MinCache: minCache, Prices: p}}
			})
			if strings.Contains(string(x.Request.Doc.Bytes), "[Out of date") {
				return n
			}
		}
		return 0
	}
	none := first(policy.Prices{Input: 3_000_000, CachedInput: 300_000}, 0)
	half := first(policy.Prices{Input: 3_000_000, CachedInput: 1_500_000, CacheWrite: 3_000_000}, 1024)
	tenth := first(policy.Prices{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000}, 1024)
	if none == 0 || half <= none || tenth != 0 {
		t.Errorf("shortened after %d answers without a cache, %d where it halves the price, %d where it takes a tenth", none, half, tenth)
	}
	window := send(t, compress.Layer{}, nil, chat.Anthropic, reading(6, "5m"), func(x *pipeline.Exchange) {
		claude(x)
		x.Found[0].Context = 30_000
	})
	if !strings.Contains(string(window.Request.Doc.Bytes), "[Out of date") {
		t.Error("a request that hardly fits into the model's window is not shortened")
	}
}

// TestASummaryIsForgottenAfterTwoHours in which it was not used.
func TestASummaryIsForgottenAfterTwoHours(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	clock.Replace(func() time.Time { return now })
	t.Cleanup(func() { clock.Replace(nil) })
	l, side, c := summarising(compress.SummaryOn), &summariser{says: "The user asked this and that."}, &conversation{dialect: chat.OpenAI}
	for i := range 14 {
		c.ask(i, i%3)
	}
	for i, row := range []struct {
		pause time.Duration
		calls int
	}{{0, 1}, {119 * time.Minute, 1}, {119 * time.Minute, 1}, {121 * time.Minute, 2}} {
		now = now.Add(row.pause)
		if send(t, l, side, chat.OpenAI, c.body("What now?"), nil); len(side.calls) != row.calls {
			t.Errorf("request %d, after %v: %d calls, want %d", i, row.pause, len(side.calls), row.calls)
		}
	}
}
