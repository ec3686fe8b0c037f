package compress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/racetest"
	"bardo.money/gateway/policy"
)

// summariser is a fake model that always gives the same answer.
type summariser struct {
	says  string
	cut   bool // its answers are cut off
	err   error
	calls []*pipeline.SideCall
	price policy.Price
	none  bool // there is no provider
}

func (s *summariser) Offer(c *pipeline.SideCall) (pipeline.SideOffer, bool) {
	tooDear := s.price.Cost(int64(len(c.Text)*2/7)) > c.Worth
	return pipeline.SideOffer{To: policy.Resolution{Provider: "cheap", Model: "tiny"}}, !s.none && !tooDear
}

func (s *summariser) Ask(_ context.Context, c *pipeline.SideCall) (pipeline.SideAnswer, error) {
	s.calls = append(s.calls, c)
	if s.err != nil {
		return pipeline.SideAnswer{}, s.err
	}
	return pipeline.SideAnswer{Text: s.says, Complete: !s.cut}, nil
}

// conversation is a growing chat of a user with a model and its tools, in one of the formats.
type conversation struct {
	dialect chat.Dialect
	turns   []map[string]any // messages in OpenAI's format
}

// prose is a text of n words without facts.
func prose(n int) string {
	return strings.TrimSpace(strings.Repeat("and then it went on as before ", n/6+1))
}

// ask adds a question of the user and an answer of the model with calls calls, each with its result.
func (c *conversation) ask(i, calls int) {
	c.turns = append(c.turns, map[string]any{"role": "user", "content": fmt.Sprintf("Question %d. %s", i, prose(60))})
	var list []any
	for k := range calls {
		list = append(list, map[string]any{"id": fmt.Sprintf("call_%d_%d", i, k), "type": "function", "function": map[string]any{"name": "look", "arguments": fmt.Sprintf(`{"q":"%d.%d"}`, i, k)}})
	}
	if calls > 0 {
		c.turns = append(c.turns, map[string]any{"role": "assistant", "content": nil, "tool_calls": list})
	}
	for k := range calls {
		c.turns = append(c.turns, map[string]any{"role": "tool", "tool_call_id": fmt.Sprintf("call_%d_%d", i, k), "content": prose(150)})
	}
	c.turns = append(c.turns, map[string]any{"role": "assistant", "content": fmt.Sprintf("Answer %d. %s", i, prose(120))})
}

// body is the conversation with a last question.
func (c *conversation) body(question string) string {
	turns := append([]map[string]any{{"role": "system", "content": "You help."}}, c.turns...)
	turns = append(turns, map[string]any{"role": "user", "content": question})
	var v map[string]any
	switch c.dialect {
	case chat.Anthropic:
		v = map[string]any{"system": "You help.", "max_tokens": 100, "messages": anthropicTurns(turns[1:])}
	case chat.Gemini:
		v = map[string]any{"systemInstruction": map[string]any{"parts": []any{map[string]any{"text": "You help."}}}, "contents": geminiTurns(turns[1:])}
	case chat.Responses:
		v = map[string]any{"instructions": "You help.", "input": responsesTurns(turns[1:])}
	default:
		v = map[string]any{"messages": turns}
	}
	if c.dialect != chat.Gemini {
		v["model"] = "m"
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// callOf is a call of OpenAI's format.
func callOf(v any) (id, name, arguments string) {
	m := v.(map[string]any)
	f := m["function"].(map[string]any)
	return m["id"].(string), f["name"].(string), f["arguments"].(string)
}

func anthropicTurns(turns []map[string]any) (out []any) {
	for _, t := range turns {
		list, _ := t["tool_calls"].([]any)
		switch {
		case t["role"] == "tool":
			block := map[string]any{"type": "tool_result", "tool_use_id": t["tool_call_id"], "content": t["content"]}
			if n := len(out); n > 0 && out[n-1].(map[string]any)["results"] != nil {
				last := out[n-1].(map[string]any)
				last["content"] = append(last["content"].([]any), block)
				continue
			}
			out = append(out, map[string]any{"role": "user", "content": []any{block}, "results": true})
		case len(list) > 0:
			var blocks []any
			for _, c := range list {
				id, name, args := callOf(c)
				blocks = append(blocks, map[string]any{"type": "tool_use", "id": id, "name": name, "input": json.RawMessage(args)})
			}
			out = append(out, map[string]any{"role": "assistant", "content": blocks})
		default:
			out = append(out, map[string]any{"role": t["role"], "content": t["content"]})
		}
	}
	for _, m := range out {
		delete(m.(map[string]any), "results")
	}
	return out
}

func geminiTurns(turns []map[string]any) (out []any) {
	for _, t := range turns {
		role, list := "user", []any(nil)
		if t["role"] == "assistant" {
			role = "model"
			list, _ = t["tool_calls"].([]any)
		}
		var parts []any
		for _, c := range list {
			id, name, args := callOf(c)
			parts = append(parts, map[string]any{"functionCall": map[string]any{"id": id, "name": name, "args": json.RawMessage(args)}})
		}
		switch {
		case t["role"] == "tool":
			parts = append(parts, map[string]any{"functionResponse": map[string]any{"id": t["tool_call_id"], "name": "look", "response": map[string]any{"output": t["content"]}}})
		case len(list) == 0:
			parts = append(parts, map[string]any{"text": t["content"]})
		}
		out = append(out, map[string]any{"role": role, "parts": parts})
	}
	return out
}

func responsesTurns(turns []map[string]any) (out []any) {
	for _, t := range turns {
		list, _ := t["tool_calls"].([]any)
		for _, c := range list {
			id, name, args := callOf(c)
			out = append(out, map[string]any{"type": "function_call", "call_id": id, "name": name, "arguments": args})
		}
		switch {
		case t["role"] == "tool":
			out = append(out, map[string]any{"type": "function_call_output", "call_id": t["tool_call_id"], "output": t["content"]})
		case len(list) == 0:
			out = append(out, map[string]any{"type": "message", "role": t["role"], "content": t["content"]})
		}
	}
	return out
}

var dialects = map[chat.Dialect]wire.Dialect{ //nolint:exhaustive // the others have no conversation
	chat.OpenAI: openai.Dialect{}, chat.Anthropic: anthropic.Dialect{}, chat.Gemini: gemini.Dialect{}, chat.Responses: responses.Dialect{},
}

// send passes a body through a layer.
func send(t testing.TB, l pipeline.Layer, side pipeline.SideCaller, d chat.Dialect, body string, with func(*pipeline.Exchange)) *pipeline.Exchange {
	t.Helper()
	query := ""
	r, err := dialects[d].Decode(chat.Generate, nil, query, []byte(body))
	if d == chat.Gemini {
		r, err = gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", "").Decode(chat.Generate, nil, query, []byte(body))
	}
	if err != nil {
		t.Fatal(err, body[:min(len(body), 200)])
	}
	x := &pipeline.Exchange{Request: r, Found: []policy.Resolution{{Provider: "p", Model: "m", Prices: policy.Prices{Input: 3_000_000, Output: 15_000_000, CachedInput: 3_000_000}}}}
	if side != nil {
		x.Side = side
	}
	if with != nil {
		with(x)
	}
	if err := pipeline.New(l).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Request.Conversation(); err != nil {
		t.Fatal(err)
	}
	return x
}

func summarising(mode compress.Summary) compress.Layer {
	return compress.Layer{Memory: compress.NewMemory(), Summaries: compress.Summaries{Mode: mode, Trigger: 4000}}
}

func noteOf(x *pipeline.Exchange) string {
	if len(x.Log) == 0 {
		return ""
	}
	return x.Log[0].Note
}

// TestC10OldTurnsAreSummarised: in every format, without the first question and the results, with the last turns and the newest question unchanged; and the next
// request begins with the same bytes without another call.
func TestC10OldTurnsAreSummarised(t *testing.T) {
	for d := range dialects {
		l, side := summarising(compress.SummaryOn), &summariser{says: "The user asked this and that."}
		c := &conversation{dialect: d}
		for i := range 14 {
			c.ask(i, i%3)
		}
		body := c.body("What now?")
		x := send(t, l, side, d, body, nil)
		if len(side.calls) != 1 || !strings.HasPrefix(noteOf(x), "summary=") || x.Log[0].Saved < 1000 {
			t.Fatalf("%s: %d calls, %q", d, len(side.calls), noteOf(x))
		}
		sent := string(x.Request.Doc.Bytes)
		for text, want := range map[string]bool{
			"You help.": true, "What now?": true, "Answer 13.": true, "Question 13.": true, "Answer 0.": false, "Question 0.": false, "The user asked this and that.": true, "Question 4.": false,
		} {
			if strings.Contains(sent, text) != want {
				t.Errorf("%s: %q is sent: %v", d, text, !want)
			}
		}
		if whole(t, x) != "" || x.Whole == nil || string(x.Whole.Doc.Bytes) != body {
			t.Errorf("%s: %s", d, whole(t, x))
		}
		if got := side.calls[0]; got.MaxTokens != 400 || got.Timeout.Seconds() != 2 || !strings.Contains(got.Text, "Question 0.") || strings.Contains(got.Text, "Answer 13.") || strings.Contains(got.Text, "You help.") {
			t.Errorf("%s: the call is %.300v", d, got)
		}
		c.turns = append(c.turns, map[string]any{"role": "user", "content": "What now?"}, map[string]any{"role": "assistant", "content": "This."})
		y := send(t, l, side, d, c.body("And then?"), nil)
		if len(side.calls) != 1 || !strings.HasPrefix(string(y.Request.Doc.Bytes), prefixOf(sent, "What now?")) {
			t.Errorf("%s: %d calls; the next turn sends %.600s", d, len(side.calls), y.Request.Doc.Bytes)
		}
	}
}

// prefixOf is a text up to the end of another one in it.
func prefixOf(text, end string) string { return text[:strings.LastIndex(text, end)+len(end)] }

// whole reports what is invalid in a request: a call without a result, a result without a call, or two turns of the system.
func whole(t testing.TB, x *pipeline.Exchange) string {
	t.Helper()
	tr, err := transcript.Of(x.Request)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]int{}
	for i := range tr.Turns {
		for _, c := range tr.Turns[i].Calls {
			open[c.ID]++
		}
		for _, id := range tr.Turns[i].Answers {
			if open[id]--; open[id] < 0 {
				return "a result without its call: " + id
			}
		}
	}
	for id, n := range open {
		if n != 0 {
			return "a call without its result: " + id
		}
	}
	return ""
}

// TestC10WithoutAGoodSummaryTheHistoryIsSentAsItIs, and no other is requested in the next turns.
func TestC10WithoutAGoodSummaryTheHistoryIsSentAsItIs(t *testing.T) {
	for _, row := range []struct {
		about string
		side  *summariser
		note  string
		calls int
	}{
		{"a timeout", &summariser{err: &pipeline.NoSideAnswer{Reason: pipeline.SideTimeout}}, "summary=timeout", 1},
		{"no money", &summariser{err: &pipeline.NoSideAnswer{Reason: pipeline.SideNoMoney}}, "summary=no_money", 1},
		{"no provider", &summariser{none: true}, "summary=no_provider", 0},
		{"an incomplete answer", &summariser{says: "It", cut: true}, "summary=unusable", 1},
		{"it is no shorter", &summariser{says: strings.Repeat("It went on. ", 4000)}, "summary=unusable", 1},
		{"it costs more than it saves", &summariser{says: "Short.", price: 90_000_000}, "summary=no_provider", 0},
	} {
		l, c := summarising(compress.SummaryOn), &conversation{dialect: chat.OpenAI}
		for i := range 12 {
			c.ask(i, 1)
		}
		for range 3 {
			body := c.body("What now?")
			x := send(t, l, row.side, chat.OpenAI, body, nil)
			if string(x.Request.Doc.Bytes) != body || x.Log[0].Saved != 0 {
				t.Errorf("%s: the request changed: %+v", row.about, x.Log)
			}
			if n := noteOf(x); n != row.note && n != "" {
				t.Errorf("%s: %q", row.about, n)
			}
			c.turns = append(c.turns, map[string]any{"role": "user", "content": "What now?"}, map[string]any{"role": "assistant", "content": "This."})
		}
		if len(row.side.calls) != row.calls {
			t.Errorf("%s: %d calls, want %d", row.about, len(row.side.calls), row.calls)
		}
	}
	l, c := summarising(compress.SummaryOn), &conversation{dialect: chat.OpenAI}
	for i := range 12 {
		c.ask(i, 1)
	}
	gone := errors.New("the client has disconnected")
	x := send(t, compress.Layer{Off: true}, nil, chat.OpenAI, c.body("?"), nil)
	x.Side = &summariser{err: gone}
	if err := l.Request(t.Context(), x); !errors.Is(err, gone) {
		t.Errorf("a disconnect is %v", err)
	}
}

// TestC10ShadowReportsAndChangesNothing: neither the request nor the count of saved tokens.
func TestC10ShadowReportsAndChangesNothing(t *testing.T) {
	l, side, c := summarising(compress.SummaryShadow), &summariser{says: "Short."}, &conversation{dialect: chat.OpenAI}
	for i := range 12 {
		c.ask(i, 1)
	}
	for range 2 {
		body := c.body("What now?")
		x := send(t, l, side, chat.OpenAI, body, nil)
		if string(x.Request.Doc.Bytes) != body || x.Log[0].Saved != 0 || !strings.HasPrefix(noteOf(x), "summary=shadow;would=") {
			t.Errorf("%+v", x.Log)
		}
		c.ask(12, 0)
	}
	if len(side.calls) != 1 {
		t.Errorf("%d calls", len(side.calls))
	}
}

// TestD34WhatMattersIsInTheSummary: facts that occur later, decisions and the user's demands are sent, verbatim if the model left them out.
func TestD34WhatMattersIsInTheSummary(t *testing.T) {
	l, side, c := summarising(compress.SummaryOn), &summariser{says: "They talked about the pool."}, &conversation{dialect: chat.OpenAI}
	c.turns = append(c.turns,
		map[string]any{"role": "user", "content": "Never sell more than 12.5 ETH at a time. The account is 0x52908400098527886E0F7030069857D2E4169EE7, of Marguerite Duvall."},
		map[string]any{"role": "assistant", "content": "We decided for pool_eth_usdc_3000. Its depth is 918273 today. The fee of 0.05% was seen on 2026-03-01."})
	for i := range 12 {
		c.ask(i, 1)
	}
	c.turns = append(c.turns, map[string]any{"role": "user", "content": "Is 918273 still right?"}, map[string]any{"role": "assistant", "content": "It is."})
	x := send(t, l, side, chat.OpenAI, c.body("Send it to Duvall."), nil)
	sent := string(x.Request.Doc.Bytes)
	for text, want := range map[string]bool{
		"Never sell more than 12.5 ETH at a time.": true, "pool_eth_usdc_3000": true, "Its depth is 918273 today.": true, "Duvall": true, "0.05%": false, "2026-03-01": false,
	} {
		if strings.Contains(sent, text) != want {
			t.Errorf("%q is sent: %v (%s)", text, !want, noteOf(x))
		}
	}
	if call := side.calls[0].System; !strings.Contains(call, "918273") || !strings.Contains(call, "ETH") || strings.Contains(call, "2026-03-01") {
		t.Errorf("the model is told %s", call)
	}
	y := &conversation{dialect: chat.OpenAI}
	for i := range 12 {
		y.ask(i, 1)
		y.turns[len(y.turns)-1]["content"] = strings.Repeat(fmt.Sprintf("You must never do thing_%d again. ", i), 30)
	}
	for i := range 300 {
		y.turns[0]["content"] = fmt.Sprint(y.turns[0]["content"], " It must be rule_", i, ".")
	}
	if x := send(t, l, side, chat.OpenAI, y.body("What now?"), nil); string(x.Request.Doc.Bytes) != y.body("What now?") {
		t.Errorf("more rules than fit: %s", noteOf(x))
	}
}

// TestFacts: what counts as a number, an address, a ticker, an identifier or a name.
func TestFacts(t *testing.T) {
	got := compress.Facts("The ETH/USDC pool at 0xAbC123 has 1,204.5 of depth; see https://a.example/x?y=1, ask ada@example.org or Lena. Use get_price(tokenId), v2.1 and src/main.go by 12:30 on 2026-01-05, 5% or $7. A b c 7.")
	want := []string{"ETH/USDC", "0xAbC123", "1,204.5", "https://a.example/x?y=1", "ada@example.org", "Lena", "get_price", "tokenId", "v2.1", "src/main.go", "12:30", "2026-01-05", "5%", "$7"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, holds := range map[string]bool{"it is 42.": true, "it is 142": false, "it is 420": false, "x42": false, "(42)": true, "": false, "at 42%": true} {
		if compress.Holds(text, "42") != holds {
			t.Errorf("%q holds it: %v", text, !holds)
		}
	}
}

// TestK73WhatMustStayIsNotSummarised: images, system messages, the newest message of the user, and everything before them; conversations that the provider
// stores; secret requests of callers without a key.
func TestK73WhatMustStayIsNotSummarised(t *testing.T) {
	image := map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "See picture."}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,AAAA"}}}}
	system := map[string]any{"role": "system", "content": "Be brief from now on."}
	for _, row := range []struct {
		about string
		with  func(c *conversation)
		x     func(*pipeline.Exchange)
		stays []string
		calls int
	}{
		{"an image", func(c *conversation) { c.turns = slices.Insert(c.turns, 3, image) }, nil, []string{"Question 0.", "See picture.", "data:image/png"}, 1},
		{"a system message", func(c *conversation) { c.turns = slices.Insert(c.turns, 4, system) }, nil, []string{"Question 0.", "Be brief"}, 1},
		{"an image near the end", func(c *conversation) { c.turns = slices.Insert(c.turns, len(c.turns)-8, image) }, nil, []string{"Question 0.", "See picture."}, 0},
		{"a request without logging, of a caller without a key", nil, func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyNoLog }, []string{"Question 0."}, 0},
		{"a confidential request, of a caller without a key", nil, func(x *pipeline.Exchange) { x.Hints.SecurityClass = policy.SecurityConfidential }, []string{"Question 0."}, 0},
	} {
		l, side, c := summarising(compress.SummaryOn), &summariser{says: "Short."}, &conversation{dialect: chat.OpenAI}
		for i := range 14 {
			c.ask(i, 1)
		}
		if row.with != nil {
			row.with(c)
		}
		x := send(t, l, side, chat.OpenAI, c.body("What now?"), row.x)
		for _, text := range row.stays {
			if !strings.Contains(string(x.Request.Doc.Bytes), text) {
				t.Errorf("%s: %q is gone", row.about, text)
			}
		}
		if len(side.calls) != row.calls || whole(t, x) != "" {
			t.Errorf("%s: %d calls, %s, %s", row.about, len(side.calls), whole(t, x), noteOf(x))
		}
	}
}

// TestK73K74SummariesKeepConversationsWhole: with any number of parallel calls, and wherever a conversation ends; no request grows; the same conversation gives
// the same bytes; each request begins with the previous one, unless a summary or the horizon moved.
func TestK73K74SummariesKeepConversationsWhole(t *testing.T) {
	names := []chat.Dialect{chat.OpenAI, chat.Anthropic, chat.Gemini, chat.Responses}
	for seed := range uint64(max(4, racetest.Less(24))) {
		rng := rand.New(rand.NewPCG(seed, 5))
		d := names[seed%4]
		c := &conversation{dialect: d}
		var layers [2]compress.Layer
		var sides [2]*summariser
		for k := range layers {
			layers[k], sides[k] = summarising(compress.SummaryOn), &summariser{says: "Short of " + fmt.Sprint(seed)}
		}
		before, moved, steady := "", 0, 0
		for i := range 30 {
			question := fmt.Sprintf("Last question %d?", i)
			var out [2]string
			for k := range layers {
				x := send(t, layers[k], sides[k], d, c.body(question), nil)
				if out[k] = string(x.Request.Doc.Bytes); len(out[k]) > len(c.body(question)) || whole(t, x) != "" || !strings.Contains(out[k], question) {
					t.Fatalf("%d, turn %d: %d bytes became %d; %s", seed, i, len(c.body(question)), len(out[k]), whole(t, x))
				}
				if saved := x.Log; len(saved) > 0 && (saved[0].Saved > 0) != (len(out[k]) < len(c.body(question))) {
					t.Fatalf("%d, turn %d: %+v, %d bytes became %d", seed, i, saved[0], len(c.body(question)), len(out[k]))
				}
			}
			if out[0] != out[1] {
				t.Fatalf("%d, turn %d: the same conversation is sent in two ways", seed, i)
			}
			if before != "" {
				if strings.HasPrefix(out[0], before) {
					steady++
				} else {
					moved++
				}
			}
			c.turns = append(c.turns, map[string]any{"role": "user", "content": question}, map[string]any{"role": "assistant", "content": "Yes. " + prose(40)})
			before = prefixOf(out[0], question)
			for range rng.IntN(2) {
				c.ask(100+i, rng.IntN(4))
			}
		}
		if moved > len(sides[0].calls) || steady < 20 {
			t.Errorf("%d: the beginning changed %d times, with %d summaries; it stayed %d times", seed, moved, len(sides[0].calls), steady)
		}
	}
}

// TestASummaryIsOfOneConversation: of one account, one model, and one system prompt, wherever that is in the document.
func TestASummaryIsOfOneConversation(t *testing.T) {
	l, side, c := summarising(compress.SummaryOn), &summariser{says: "The user asked this and that."}, &conversation{dialect: chat.Anthropic}
	for i := range 14 {
		c.ask(i, i%3)
	}
	calls := 0
	for _, row := range []struct {
		about, system string
		with          func(*pipeline.Exchange)
		fresh         bool
	}{
		{"the first", "You help.", nil, true},
		{"the same", "You help.", nil, false},
		{"another account", "You help.", func(x *pipeline.Exchange) { x.Principal.Account = "other" }, true},
		{"another model", "You help.", func(x *pipeline.Exchange) { x.Found[0].Model = "n" }, true},
		{"another system prompt", "You advise.", nil, true},
	} {
		send(t, l, side, chat.Anthropic, strings.Replace(c.body("What now?"), "You help.", row.system, 1), row.with)
		if made := len(side.calls) > calls; made != row.fresh {
			t.Errorf("%s: a summary is made: %v", row.about, made)
		}
		calls = len(side.calls)
	}
}

// TestASummaryExtendsThePreviousOne: when the conversation is long again, the new one is made of the old one and the turns after it.
func TestASummaryExtendsThePreviousOne(t *testing.T) {
	l, side, c := summarising(compress.SummaryOn), &summariser{says: "First record."}, &conversation{dialect: chat.OpenAI}
	for i := range 60 {
		c.ask(i, 1)
		x := send(t, l, side, chat.OpenAI, c.body("What now?"), nil)
		if n := strings.Count(string(x.Request.Doc.Bytes), "messages that stood here"); n > 1 {
			t.Fatalf("%d summaries in one request", n)
		}
	}
	if len(side.calls) < 2 || len(side.calls) > 12 {
		t.Fatalf("%d calls", len(side.calls))
	}
	second := side.calls[1].Text
	if !strings.Contains(second, "First record.") || strings.Contains(second, "Question 0.") {
		t.Errorf("the second is made of %.600s", second)
	}
}
