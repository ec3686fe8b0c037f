package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// cost is what the calls of the turn cost their providers, in millionths of a dollar.
func (s *dialogSide) cost() (sum int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, said := range append(slices.Clip(s.said), s.others...) {
		input, output := int64(10), int64(20)
		if said.model == "mini" {
			input, output = 1, 2
		}
		if u := said.b.Usage; u != nil && said.b.Status == 0 {
			sum += input*int64(u.Input) + output*int64(u.Output)
		}
	}
	return sum
}

// checkPaid: the request cost what its calls cost, with a fifth on top, in the balance, the answer and the record.
func (v *dialog) checkPaid(t *testing.T, i int, q *extrasTurn, got gateway.Answer, held int64) {
	t.Helper()
	s := v.sides[i]
	cost, paid := s.cost(), held-balanceOf(t, s.g, s.keys[v.key])
	v.spent[i] += paid
	if paid*10 != cost*12 {
		t.Errorf("%s: %d were paid, calls cost %d: %d by the model, %d others, %v", v, paid, cost, len(s.said), len(s.others), v.record)
	}
	if got.Status == http.StatusOK && !q.stream {
		if said := got.Header.Get("X-Bardo-Cost"); said != usd(paid) {
			t.Errorf("%s: the answer says that it cost %s, %s was paid", v, said, usd(paid))
		}
	}
	if said, ok := v.record["cost_usd"].(float64); ok && int64(math.Round(said*1e6)) != paid {
		t.Errorf("%s: the record says %v, %s was paid", v, said, usd(paid))
	}
}

func usd(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }

// checkUsage: the answer counts the tokens of all rounds.
func (v *dialog) checkUsage(t *testing.T, i int, got gateway.Answer, h *parsedTurn) {
	t.Helper()
	if got.Header.Get("X-Bardo-Cache") == "hash" || got.Header.Get("X-Bardo-Cache") == "semantic" || v.verifies {
		return
	}
	input, output := 0, 0
	for _, said := range v.sides[i].said {
		input, output = input+said.b.Usage.Input, output+said.b.Usage.Output
	}
	if (h.input != 0 || h.output != 0) && (h.input != input || h.output != output) {
		t.Errorf("%s: the answer counts %d and %d tokens, its %d rounds %d and %d", v, h.input, h.output, len(v.sides[i].said), input, output)
	}
}

// checkServices: what is beside the providers sees no value that is masked, and nothing of a private conversation unless it is private itself.
func (v *dialog) checkServices(t *testing.T, i int) {
	t.Helper()
	s, b := v.sides[i], v.extras
	saw := map[string]string{"guard": strings.Join(b.services[i].guard.questions(), "\n"), "search": strings.Join(b.services[i].search.questions(), "\n")}
	for _, said := range s.others {
		name := said.model
		if name == "mini" {
			name = "helper"
		}
		saw[name] += string(said.body)
	}
	for name, text := range saw {
		if text != "" && v.class == "private" && !b.private[name] {
			t.Errorf("%s: %s sees a private conversation: %s", v, name, text)
		}
		for _, value := range v.values {
			if (v.masked() || name == "search" && v.class != "") && strings.Contains(text, value) {
				t.Errorf("%s: %s sees %s: %s", v, name, value, text)
			}
		}
	}
	for _, said := range s.said[:min(1, len(s.said))] { // later rounds have what the model said before
		if v.guards("request") && strings.Contains(string(said.body), replacedWord) && verdict(v.last[i].Body) == "replaced" {
			t.Errorf("%s: the guardrail replaced a word that the provider sees: %s", v, said.body)
		}
	}
}

// replaceIn makes what the model said what the guardrail leaves of it.
func (v *dialog) replaceIn(i int, want *parsedTurn) {
	if !v.guards("response") {
		return
	}
	for _, said := range v.sides[i].said {
		if verdict(said.b.Text) != "replaced" {
			return
		}
	}
	want.text = strings.ReplaceAll(want.text, replacedWord, replacement)
}

// wellFormed: the answer's pieces follow each other as its format has it, and it says why it ends.
func (v *dialog) wellFormed(t *testing.T, got gateway.Answer, stream bool, h *parsedTurn) {
	t.Helper()
	ending := map[dialogFormat][2]string{inChat: {"stop", "tool_calls"}, inMessages: {"end_turn", "tool_use"}, inResponses: {"completed", "completed"}, inGemini: {"STOP", "STOP"}}[v.format]
	want := ending[0]
	if len(h.calls) > 0 {
		want = ending[1]
	}
	if h.ending != want {
		t.Errorf("%s: an answer with %d calls ends with %q: %s", v, len(h.calls), h.ending, got.Body)
	}
	ids := map[string]bool{}
	for _, c := range h.calls {
		if c.id != "" && ids[c.id] || c.id == "" && v.format != inGemini {
			t.Errorf("%s: the ids of calls are %+v", v, h.calls)
		}
		ids[c.id] = true
	}
	if !stream {
		return
	}
	var docs []object
	for _, ev := range got.Events(t) {
		if ev.Data != "" && ev.Data != "[DONE]" {
			o, _ := parsed(ev.Data).(object)
			docs = append(docs, o)
		}
	}
	switch v.format {
	case inChat:
		v.chatInOrder(t, docs)
	case inMessages:
		v.messagesInOrder(t, docs)
	case inResponses:
		v.responsesInOrder(t, docs)
	case inGemini: // has no numbers
	}
}

func number(v any) int {
	f, ok := v.(float64)
	if !ok {
		return -1
	}
	return int(f)
}

// chatInOrder: calls have the numbers 0, 1, … in their order.
func (v *dialog) chatInOrder(t *testing.T, docs []object) {
	t.Helper()
	next := 0
	for _, doc := range docs {
		for _, choice := range inList(doc["choices"]) {
			for _, piece := range inList(inside(choice, "delta", "tool_calls")) {
				n := number(inside(piece, "index"))
				if asText(inside(piece, "id")) != "" {
					next++
				}
				if n != next-1 {
					t.Errorf("%s: a piece of call %d has the number %d: %v", v, next-1, n, docs)
				}
			}
		}
	}
}

// messagesInOrder: blocks begin and end one after the other, numbered from 0 on.
func (v *dialog) messagesInOrder(t *testing.T, docs []object) {
	t.Helper()
	next, open := 0, false
	for _, doc := range docs {
		n := number(doc["index"])
		switch doc["type"] {
		case "content_block_start":
			if open || n != next {
				t.Errorf("%s: block %d begins after %d, open %v: %v", v, n, next-1, open, docs)
			}
			open, next = true, next+1
		case "content_block_delta", "content_block_stop":
			if !open || n != next-1 {
				t.Errorf("%s: %s of block %d in block %d: %v", v, doc["type"], n, next-1, docs)
			}
			open = doc["type"] == "content_block_delta"
		}
	}
	if open {
		t.Errorf("%s: block %d does not end: %v", v, next-1, docs)
	}
}

// responsesInOrder: events are numbered without gaps, and the items that were sent are those of the whole.
func (v *dialog) responsesInOrder(t *testing.T, docs []object) {
	t.Helper()
	var items []any
	for k, doc := range docs {
		if number(doc["sequence_number"]) != k {
			t.Errorf("%s: event %d has the number %v: %v", v, k, doc["sequence_number"], docs)
		}
		if doc["type"] == "response.output_item.done" {
			if n := number(doc["output_index"]); n != len(items) {
				t.Errorf("%s: item %d has the index %d: %v", v, len(items), n, docs)
			}
			items = append(items, doc["item"])
		}
	}
	a, _ := json.Marshal(items)                                                   // it was JSON before
	b, _ := json.Marshal(inList(inside(docs[len(docs)-1], "response", "output"))) // it was JSON before
	if !bytes.Equal(a, b) && len(items) > 0 {
		t.Errorf("%s: the items are\n%s\nthe whole has\n%s", v, a, b)
	}
}

// endSession: the session has what its requests cost, gives back what was stored in it, and serves nothing when it is over.
func (v *dialog) endSession(t *testing.T) {
	t.Helper()
	for i, s := range v.sides {
		if v.sessions[i].Key == "" {
			continue
		}
		l := &sessionLab{Gateway: s.g}
		show := l.show(t, s.keys[v.key], v.sessions[i].ID)
		if micro(t, show.Used) != v.spent[i] || show.Held != "0.000000" {
			t.Errorf("%s: the session used %s and holds %s; its requests cost %s", v, show.Used, show.Held, usd(v.spent[i]))
		}
		said, _ := json.Marshal(v.values) // it is JSON
		state := fmt.Sprintf(`{ "turn" : %d, "said":  %s }`, v.turn, said)
		at := "/v1/sessions/" + v.sessions[i].ID
		made := s.g.Do(t, gateway.Call{Path: at + "/checkpoints", Key: v.sessions[i].Key, Body: state})
		var c struct{ ID string }
		if made.JSON(t, &c); made.Status != http.StatusCreated {
			t.Errorf("%s: a checkpoint: %d %s", v, made.Status, made.Body)
		}
		if got := s.g.Do(t, gateway.Call{Path: at + "/checkpoints/" + c.ID, Key: v.sessions[i].Key}); got.Body != state {
			t.Errorf("%s: the checkpoint is restored as %s, not %s", v, got.Body, state)
		}
		s.g.Do(t, gateway.Call{Method: http.MethodDelete, Path: at, Key: s.keys[v.key]})
		call := v.last[i]
		if call.Key = v.sessions[i].Key; call.Body != "" {
			if got := s.g.Do(t, call); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: a session that is over: %d %s", v, got.Status, got.Body)
			}
		}
	}
}
