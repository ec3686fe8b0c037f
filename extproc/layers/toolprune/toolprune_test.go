package toolprune_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/clock"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// tool is a definition in OpenAI's format.
func tool(name, description string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{
		"name": name, "description": description, "parameters": map[string]any{"type": "object", "properties": map[string]any{}},
	}}
}

// defi are 30 tools of an agent.
func defi() (out []map[string]any) {
	for _, name := range []string{
		"get_token_price", "get_pool_info", "get_ohlc", "swap_tokens", "quote_swap", "approve_token", "add_liquidity", "remove_liquidity", "collect_fees",
		"vault_deposit", "vault_withdraw", "rebalance_vault", "check_health_factor", "get_liquidation_risk", "get_exposure", "portfolio_summary",
		"get_balance", "get_pnl_history", "update_strategy", "read_playbook", "run_backtest", "send_transaction", "estimate_gas", "simulate_transaction",
		"search_news", "post_message", "read_calendar", "translate_text", "weather_forecast", "create_image",
	} {
		out = append(out, tool(name, "Does what its name says: "+strings.ReplaceAll(name, "_", " ")+"."))
	}
	return out
}

func request(t *testing.T, h policy.Hints, body map[string]any) *pipeline.Exchange {
	t.Helper()
	body["model"] = "m"
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", raw)
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{Request: r, Hints: h, Principal: policy.Principal{Account: "a"}}
}

func user(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

// prune runs the layer and returns the names of the tools that are left, in their order.
func prune(t *testing.T, l toolprune.Layer, x *pipeline.Exchange) []string {
	t.Helper()
	if l.Memory == nil {
		l.Memory = toolprune.NewChoices()
	}
	if err := pipeline.New(l).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	tr, err := transcript.Of(x.Request)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, tool := range tr.Tools {
		out = append(out, tool.Name)
	}
	if _, err := x.Request.Conversation(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestC08EachTaskHasItsTools: an agent's tick keeps what its task needs, at most twelve tools and 1,500 tokens of definitions.
func TestC08EachTaskHasItsTools(t *testing.T) {
	for task, want := range map[string][]string{
		"market_analysis":  {"get_token_price", "get_pool_info", "get_ohlc", "search_news"},
		"lp_management":    {"add_liquidity", "remove_liquidity", "collect_fees", "get_pool_info"},
		"vault_rebalance":  {"vault_deposit", "vault_withdraw", "rebalance_vault"},
		"risk_check":       {"check_health_factor", "get_liquidation_risk", "get_exposure"},
		"portfolio_review": {"portfolio_summary", "get_balance", "get_pnl_history"},
		"trade_execution":  {"swap_tokens", "quote_swap", "approve_token", "simulate_transaction", "send_transaction", "estimate_gas"},
		"strategy_update":  {"update_strategy", "read_playbook", "run_backtest"},
	} {
		x := request(t, policy.Hints{TickType: task}, map[string]any{"messages": []any{user("Tick 7. Write a poem about the weather.")}, "tools": defi()})
		got := prune(t, toolprune.Layer{}, x)
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s has lost %s: %v", task, name, got)
			}
		}
		if len(got) > 12 || slices.Contains(got, "weather_forecast") {
			t.Errorf("%s keeps %v", task, got)
		}
		if x.Log[0].Layer != "l4" || x.Log[0].Saved <= 0 {
			t.Errorf("%s: log %+v", task, x.Log)
		}
	}
}

// TestD36WithoutATaskTheLastMessageDecides, whatever the number of tools that are kept.
func TestD36WithoutATaskTheLastMessageDecides(t *testing.T) {
	for text, want := range map[string]string{
		"Please swap 1 ETH for USDC":                   "swap_tokens",
		"What is our liquidation risk?":                "get_liquidation_risk",
		"Translating this text into French, please":    "translate_text",
		"Is there any news about the merge? Search it": "search_news",
	} {
		got := prune(t, toolprune.Layer{}, request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user(text)}, "tools": defi()}))
		if !slices.Contains(got, want) || len(got) > 12 {
			t.Errorf("%q keeps %v, without %s", text, got, want)
		}
	}
}

func TestD36OtherClientsKeepFortyOfMore(t *testing.T) {
	many := func(n int) (out []map[string]any) {
		for i := range n {
			out = append(out, tool(fmt.Sprintf("tool_%d", i), "Number "+strings.Repeat("very ", i%3)+"useful"))
		}
		return append(out, tool("refund_order", "Refunds an order"))
	}
	ask := map[string]any{"messages": []any{user("Please refund order 17")}}
	for n, want := range map[int]int{1: 2, 38: 39, 39: 40, 40: 40, 90: 40} {
		ask["tools"] = many(n)
		got := prune(t, toolprune.Layer{}, request(t, policy.Hints{}, ask))
		if len(got) != want || !slices.Contains(got, "refund_order") {
			t.Errorf("of %d tools %d are left: %v", n+1, len(got), got)
		}
	}
	ask["tools"] = many(90)
	if got := prune(t, toolprune.Layer{Mode: toolprune.Off}, request(t, policy.Hints{TickType: "risk_check"}, ask)); len(got) != 91 {
		t.Errorf("switched off, %d are left", len(got))
	}
	if got := prune(t, toolprune.Layer{Mode: toolprune.On}, request(t, policy.Hints{}, ask)); len(got) > 12 || !slices.Contains(got, "refund_order") {
		t.Errorf("switched on, %v are left", got)
	}
}

// TestD36WhatTheConversationUsesStays: tools that were called, that the request forces, that have a cache mark, and a provider's own.
func TestD36WhatTheConversationUsesStays(t *testing.T) {
	tools := defi()
	tools = append(tools, map[string]any{"type": "web_search"})
	tools[28]["cache_control"] = map[string]any{"type": "ephemeral"} // weather_forecast
	body := map[string]any{
		"tools": tools, "tool_choice": map[string]any{"type": "function", "function": map[string]any{"name": "create_image"}},
		"messages": []any{
			user("hi"),
			map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]any{"name": "read_calendar", "arguments": "{}"}}}},
			map[string]any{"role": "tool", "tool_call_id": "c", "content": "none"},
			user("now the risk"),
		},
	}
	got := prune(t, toolprune.Layer{}, request(t, policy.Hints{TickType: "risk_check"}, body))
	for _, name := range []string{"read_calendar", "weather_forecast", "create_image", "", "get_exposure"} {
		if !slices.Contains(got, name) {
			t.Errorf("%q is gone: %v", name, got)
		}
	}
	if len(got) > 12 || slices.Contains(got, "translate_text") {
		t.Errorf("%v are left", got)
	}
}

// TestD36AConversationKeepsItsTools: although a later message is about something else. Another account does not share the choice.
func TestD36AConversationKeepsItsTools(t *testing.T) {
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	first := []any{user("swap 1 ETH")}
	later := append(slices.Clone(first), map[string]any{"role": "assistant", "content": "done"}, user("Now translate this text and forecast the weather"))
	one := prune(t, l, request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": first, "tools": defi()}))
	two := prune(t, l, request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": later, "tools": defi()}))
	if !slices.Equal(one, two) {
		t.Errorf("the tools changed from %v to %v", one, two)
	}
	other := request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": later, "tools": defi()})
	other.Principal.Account = "b"
	if got := prune(t, l, other); !slices.Contains(got, "translate_text") {
		t.Errorf("another account got %v", got)
	}
	byName := policy.Hints{GolemID: "g", SessionID: "s"}
	one = prune(t, l, request(t, byName, map[string]any{"messages": first, "tools": defi()}))
	two = prune(t, l, request(t, byName, map[string]any{"messages": []any{user("forecast the weather")}, "tools": defi()}))
	if !slices.Equal(one, two) {
		t.Errorf("the session's tools changed from %v to %v", one, two)
	}
}

func TestAnOperatorsMapReplacesATask(t *testing.T) {
	l := toolprune.Layer{Tasks: toolprune.DefaultTasks.With(map[string][]string{"risk_check": {"translate_*"}, "poetry": {"*weather*"}})}
	for task, want := range map[string]string{"risk_check": "translate_text", "poetry": "weather_forecast", "lp_management": "collect_fees"} {
		if got := prune(t, l, request(t, policy.Hints{TickType: task}, map[string]any{"messages": []any{user("go")}, "tools": defi()})); !slices.Contains(got, want) {
			t.Errorf("%s keeps %v", task, got)
		}
	}
}

func TestNothingToPruneChangesNothing(t *testing.T) {
	x := request(t, policy.Hints{TickType: "risk_check"}, map[string]any{"messages": []any{user("go")}, "tools": defi()[12:15]})
	was := x.Request
	if got := prune(t, toolprune.Layer{}, x); len(got) != 3 || x.Request != was {
		t.Errorf("%v are left; the same request: %v", got, x.Request == was)
	}
	long := defi()[:5]
	for i := range long {
		long[i] = tool(fmt.Sprint("tool_", i), strings.Repeat("long ", 1000))
	}
	if got := prune(t, toolprune.Layer{}, request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user("go")}, "tools": long})); len(got) != 5 {
		t.Errorf("of five tools without a task %v are left", got)
	}
	x = request(t, policy.Hints{TickType: "risk_check"}, map[string]any{"messages": []any{user("go")}})
	prune(t, toolprune.Layer{}, x)
	if len(x.Log) != 0 {
		t.Errorf("a request without tools has the log %+v", x.Log)
	}
}

// BenchmarkHundredTools is a first request with a hundred tools.
func BenchmarkHundredTools(b *testing.B) {
	var tools []map[string]any
	for i := range 100 {
		tools = append(tools, tool(fmt.Sprintf("tool_number_%d", i), strings.Repeat("It does something useful for somebody. ", 5)))
	}
	raw, _ := json.Marshal(map[string]any{"model": "m", "messages": []any{user("Please do something useful with number 17")}, "tools": tools})
	for b.Loop() {
		r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", raw)
		if err != nil {
			b.Fatal(err)
		}
		l := toolprune.Layer{Memory: toolprune.NewChoices()}
		if err := l.Request(b.Context(), &pipeline.Exchange{Request: r}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAnotherChoiceOfTheSameToolsCostsTheCache: if the provider's cache has the client's whole list from a recent request, but not this choice.
func TestAnotherChoiceOfTheSameToolsCostsTheCache(t *testing.T) {
	now := time.Now()
	clock.Replace(func() time.Time { return now })
	t.Cleanup(func() { clock.Replace(nil) })
	l := toolprune.Layer{Memory: toolprune.NewChoices()}
	for i, row := range []struct {
		task  string
		after time.Duration
		again bool
	}{
		{"risk_check", 0, false},           // nothing is in the cache yet
		{"risk_check", time.Minute, false}, // the same beginning
		{"trade_execution", time.Minute, true},
		{"risk_check", time.Minute, false}, // it is still there
		{"strategy_update", 6 * time.Minute, false},
	} {
		now = now.Add(row.after)
		x := request(t, policy.Hints{TickType: row.task}, map[string]any{"messages": []any{user(fmt.Sprint("tick ", i))}, "tools": defi()})
		prune(t, l, x)
		e := x.Log[0]
		if (e.Change.Again > 0) != row.again || e.Removed <= 0 || e.Change.Again > x.Request.InputTokens {
			t.Errorf("request %d: %+v", i, e)
		}
	}
}

// TestTheGovernorMayLowerTheLimitAndNeverRaiseIt.
func TestTheGovernorMayLowerTheLimitAndNeverRaiseIt(t *testing.T) {
	for most, want := range map[int]int{0: 12, 5: 5, 9: 9, 100: 12, -3: 12} {
		x := request(t, policy.Hints{GolemID: "g"}, map[string]any{"messages": []any{user("swap")}, "tools": defi()})
		x.Knobs.MaxTools = most
		if got := prune(t, toolprune.Layer{}, x); len(got) != want {
			t.Errorf("with %d: %v", most, got)
		}
	}
	var many []map[string]any
	for i := range 45 {
		many = append(many, tool(fmt.Sprint("t", i), "x"))
	}
	x := request(t, policy.Hints{}, map[string]any{"messages": []any{user("swap")}, "tools": many})
	x.Knobs.MaxTools = 5
	if got := prune(t, toolprune.Layer{}, x); len(got) != 40 {
		t.Errorf("another client's request keeps %d", len(got))
	}
}
