package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// extrasTurn is one request of a conversation with services.
type extrasTurn struct {
	call   gateway.Call
	stream bool
	later  bool // it is answered later
	plan   *dialogPlan
}

// failed is how a request ends without an answer; the zero value: it has one.
type failed struct {
	status int
	code   string
}

// holdWithExtras has the conversation.
func (v *dialog) holdWithExtras(t *testing.T) {
	t.Helper()
	turns := 2 + v.r.IntN(7)
	for v.turn = range turns {
		v.say()
		if v.long && v.turn == 0 {
			v.fill()
		}
		q := extrasTurn{stream: v.r.IntN(2) == 0}
		if q.later = v.r.IntN(10) == 0; q.later {
			q.stream = false
		}
		choice := v.choice()
		body := v.body(choice)
		if q.plan = v.newExtrasPlan(choice); q.later && v.extras.strict {
			q.plan.words = strings.ReplaceAll(q.plan.words, failingWord, "") // the answer would wait until the guardrail looks at it
		}
		twice := !q.later && v.r.IntN(6) == 0
		found := "kb: " + v.planted()
		fails := v.r.IntN(4) == 0
		var seen [2]outcome
		goes := true
		for i, s := range v.sides {
			v.extras.services[i].fails = fails
			v.extras.services[i].finds(found)
			q.call = s.call(v, i, q.stream, body)
			if twice {
				v.askTwice(t, i, &q)
			}
			var ok bool
			seen[i], ok = v.askWithExtras(t, i, &q)
			goes = goes && ok
		}
		if d := seen[0].differences(seen[1]); len(d) > 0 && !q.later {
			t.Errorf("%s\n%s", v, strings.Join(d, "\n"))
		}
		v.compareSent(t)
		if t.Failed() {
			t.Fatalf("%s\n%s", v, v.config)
		}
		if !goes {
			break
		}
	}
	if v.endSession(t); t.Failed() {
		t.Fatalf("%s\n%s", v, v.config)
	}
}

// fill puts a past into the conversation that is worth a summary.
func (v *dialog) fill() {
	for range 4 {
		text := strings.Repeat(someWords(v.r, 40)+". ", 12) + v.planted()
		for _, c := range v.clients {
			c.turns = append(c.turns, c.answered(text))
			c.user([]dialogPart{{text: text + " and then?"}})
		}
	}
}

// answered is a turn in which the model said a text.
func (c *dialogClient) answered(text string) object {
	switch c.format {
	case inGemini:
		return object{"role": "model", "parts": []any{object{"text": text}}}
	case inResponses:
		return object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}}}
	case inChat, inMessages:
	}
	return object{"role": "assistant", "content": text}
}

func (v *dialog) newExtrasPlan(choice string) *dialogPlan {
	p := v.newPlan(choice)
	p.words += v.serviceWord()
	p.found = slices.DeleteFunc(slices.Clone(v.tools), func(o dialogTool) bool { return !v.offers(o.name) })
	if v.verifies {
		p.rounds = 0
	}
	if n := len(v.tools); n > 0 && v.r.IntN(3) == 0 && p.forced == "" && len(p.calls) > 0 {
		if name := v.tools[v.r.IntN(n)].name; !v.offers(name) {
			p.made = name
		}
	}
	return p
}

// serviceWord is now and then one that the guardrail acts on.
func (v *dialog) serviceWord() string {
	switch n := v.r.IntN(40); {
	case n < 8:
		return " " + replacedWord + " "
	case n == 8:
		return " " + refusedWord + " "
	case n == 9:
		return " " + failingWord + " "
	}
	return ""
}

// offers reports whether rules and the session let a tool be offered.
func (v *dialog) offers(name string) bool {
	if v.only != nil && !slices.Contains(v.only, any(name)) {
		return false
	}
	return v.extras == nil || !slices.ContainsFunc(v.extras.rules, func(d dialogRule) bool { return !d.narrow && d.objects(name, object{}) })
}

// fate is what becomes of a call: allow, flag, remove or refuse.
func (v *dialog) fate(name string, args any) string {
	for _, d := range v.extras.rules {
		if d.objects(name, args) && d.then != "flag" {
			return d.then
		}
	}
	if v.only != nil && !slices.Contains(v.only, any(name)) {
		return "remove"
	}
	return "allow"
}

// guards reports whether the guardrail looks in a direction.
func (v *dialog) guards(direction string) bool {
	return slices.Contains(v.extras.guard, direction) && (v.class != "private" || v.extras.private["guard"])
}

// before is how the gateway refuses the request before a provider has it.
func (v *dialog) refusedBefore(q *extrasTurn) failed {
	left := len(v.tools) == 0 || slices.ContainsFunc(v.tools, func(o dialogTool) bool { return v.offers(o.name) })
	required := strings.Contains(q.call.Body, `"tool_choice":"required"`) || strings.Contains(q.call.Body, `"tool_choice":{"type":"any"}`) || strings.Contains(q.call.Body, `"mode":"ANY"`)
	switch {
	case q.plan.forced != "" && !v.offers(q.plan.forced), required && !left:
		return failed{http.StatusForbidden, "tool_refused"}
	case v.extras.guard != nil && v.class == "private" && !v.extras.private["guard"] && v.extras.strict:
		return failed{http.StatusBadRequest, "guardrail_refused"}
	case v.guards("request"):
		return v.guarded(q.call.Body)
	}
	return failed{}
}

// guarded is how the guardrail ends a request of texts.
func (v *dialog) guarded(texts ...string) failed {
	switch say := verdict(texts...); {
	case say == "failed" && v.extras.strict:
		return failed{http.StatusServiceUnavailable, "guardrail_unavailable"}
	case say == "refused":
		return failed{http.StatusBadRequest, "guardrail_refused"}
	}
	return failed{}
}

// refusedAfter is how the gateway refuses what the model said. A stream may have begun by then.
func (v *dialog) refusedAfter(i int, want *parsedTurn) failed {
	var texts []string
	for _, said := range v.sides[i].said {
		texts = append(texts, said.b.Text)
	}
	if f := v.guarded(texts...); v.guards("response") && f != (failed{}) {
		return f
	}
	if want.refused {
		return failed{http.StatusForbidden, "tool_refused"}
	}
	return failed{}
}

// askWithExtras sends a request, reads the answer, and checks all that came of it. It reports whether the conversation can go on.
func (v *dialog) askWithExtras(t *testing.T, i int, q *extrasTurn) (o outcome, goes bool) {
	t.Helper()
	s, c := v.sides[i], v.clients[i]
	q.call.Key = v.keyOf(i)
	v.begin(i, q)
	held := balanceOf(t, s.g, s.keys[v.key])
	got := v.send(t, i, q)
	s.g.Key = s.keys[v.key] // whose record it is
	if o = outcomeOf(t, s.g, got); v.verifies {
		delete(o.Record, "attempt_log") // whose order is that of two calls at once
	}
	if v.record, o.Body = o.Record, ""; q.stream {
		delete(o.Header, "X-Bardo-Firewall") // what of its calls is known when its head is sent depends on what has come by then
	}
	delete(o.Header, "Content-Length") // of bodies with signatures
	v.checkPaid(t, i, q, got, held)
	v.checkServices(t, i)
	if question := v.question(q); len(s.said) == 0 && strings.Contains(got.Body, `"error":{`) {
		s.said = s.raw[question] // stored as it came, and judged each time
	} else {
		s.raw[question] = s.said
	}
	want := v.expected(t, i)
	f := v.refusedBefore(q)
	if f == (failed{}) && len(s.said) > 0 {
		f = v.refusedAfter(i, &want)
	}
	if len(s.said) > 0 && f.code != "" && f == v.refusedBefore(q) {
		t.Errorf("%s: a request that is to be refused with %v comes to the provider: %s", v, f, s.said[0].body)
	}
	if f.code != "" || got.Status != http.StatusOK || got.Err != nil {
		v.checkFailed(t, i, q, got, f)
		return o, false
	}
	h := c.read(t, got, q.stream)
	v.checkUsage(t, i, got, &h)
	v.wellFormed(t, got, q.stream, &h)
	v.checkAnswer(t, i, q.call, got, h)
	v.checkSent(t, i, q.call, got)
	return o, true
}

// question is what two requests with the same answer have in common.
func (v *dialog) question(q *extrasTurn) string { return fmt.Sprint(v.key, q.call.Path, q.call.Body) }

// begin sets what the model says in the turn, and forgets what was said before.
func (v *dialog) begin(i int, q *extrasTurn) {
	s, mine := v.sides[i], *q.plan
	s.mu.Lock()
	s.plan, s.said, s.others = &mine, nil, nil
	s.mu.Unlock()
	v.last[i] = q.call
	for _, h := range []*hook{v.extras.services[i].guard} {
		h.mu.Lock()
		h.got = nil
		h.mu.Unlock()
	}
}

func (v *dialog) keyOf(i int) string {
	if v.sessions[i].Key != "" {
		return v.sessions[i].Key
	}
	return v.sides[i].keys[v.key]
}

// send sends a request, and asks for its answer until it is there where it comes later.
func (v *dialog) send(t *testing.T, i int, q *extrasTurn) (got gateway.Answer) {
	t.Helper()
	s := v.sides[i]
	if !q.later {
		return s.g.Do(t, q.call)
	}
	call := q.call
	call.Header = append(slices.Clip(call.Header), "X-Bardo-Defer: 1h")
	var r accepted
	got = s.g.Do(t, call)
	if got.Status != http.StatusAccepted {
		return got
	}
	got.JSON(t, &r)
	eventually(t, "the answer to "+r.ID, func() bool {
		got = s.g.Do(t, gateway.Call{Path: r.AnswerURL, Key: s.keys[v.key]})
		return got.Status != http.StatusAccepted && fundsOf(t, s.g, s.keys[v.key]).Held == "0.000000"
	})
	return got
}

// checkFailed: what was to be refused is refused, in the caller's format, and nothing else is.
func (v *dialog) checkFailed(t *testing.T, i int, q *extrasTurn, got gateway.Answer, f failed) {
	t.Helper()
	if f.code == "" || got.Err != nil {
		t.Fatalf("%s: %d %v %s\nof %s\nsent %s\n%s", v, got.Status, got.Err, got.Body, q.call.Body, v.lastSent(i), v.config)
	}
	if q.stream && got.Status == http.StatusOK {
		v.checkCutStream(t, i, got, f)
		return
	}
	dialect := map[dialogFormat]fake.Dialect{inChat: fake.OpenAI, inResponses: fake.OpenAI, inMessages: fake.Anthropic, inGemini: fake.Gemini}[v.format]
	mustFail(t, ask{dialect: dialect}, got, f.status, f.code)
}

// checkCutStream: a stream that ends with an error has a part of what was said before, no call that is not allowed, and the error in its format.
func (v *dialog) checkCutStream(t *testing.T, i int, got gateway.Answer, f failed) {
	t.Helper()
	last, sent := "", ""
	for _, ev := range got.Events(t) {
		if ev.Data != "" && ev.Data != "[DONE]" {
			if last = ev.Data; !strings.Contains(last, `"tools":[`) { // of the request, in Responses
				sent += last + "\n"
			}
		}
	}
	if !strings.Contains(last, `"`+f.code+`"`) || !strings.Contains(last, `"error"`) {
		t.Errorf("%s: a stream is to end with %v: %s", v, f, got.Body)
	}
	want := v.expected(t, i)
	for _, name := range want.removed {
		if strings.Contains(sent, `"name":"`+name+`"`) && !slices.ContainsFunc(want.calls, func(c parsedCall) bool { return c.name == name }) {
			t.Errorf("%s: a call of %s is sent before the error: %s", v, name, got.Body)
		}
	}
}

// askTwice sends the turn's request twice at once, before it is sent again: where one waits for the other, the provider is called once and both are told the same.
func (v *dialog) askTwice(t *testing.T, i int, q *extrasTurn) {
	t.Helper()
	s := v.sides[i]
	q.call.Key = v.keyOf(i)
	v.begin(i, q)
	serial, held := maps.Clone(s.serial), balanceOf(t, s.g, s.keys[v.key])
	answers := make(chan gateway.Answer, 2)
	for range 2 {
		go func() { answers <- s.g.Do(t, q.call) }()
	}
	parsedTurns, from := []parsedTurn{}, []string{}
	for range 2 {
		got := <-answers
		if got.Status != http.StatusOK || got.Err != nil || q.stream && strings.Contains(got.Body, `"error":{`) {
			continue // what is refused is looked at when it is sent alone
		}
		h := (&dialogClient{format: v.format}).read(t, got, q.stream)
		v.wellFormed(t, got, q.stream, &h)
		parsedTurns, from = append(parsedTurns, h), append(from, got.Header.Get("X-Bardo-Cache"))
	}
	paid := held - balanceOf(t, s.g, s.keys[v.key])
	if v.spent[i] += paid; paid*10 != s.cost()*12 {
		t.Errorf("%s: two requests at once (%v) cost %d, and the calls %d", v, from, paid, s.cost())
	}
	s.raw[v.question(q)] = s.said
	shared := slices.ContainsFunc(from, func(f string) bool { return f == "coalesced" || f == "hash" })
	if !shared {
		s.serial = serial // two that come at once have their rounds in any order
		return
	}
	v.coalesced++
	s.stored[v.question(q)] = append(s.stored[v.question(q)], parsedTurns...)
	if len(parsedTurns) == 2 && (parsedTurns[0].text != parsedTurns[1].text || !slices.Equal(argsOf(parsedTurns[0]), argsOf(parsedTurns[1]))) {
		t.Errorf("%s: %v are told\n%+v\nand\n%+v", v, from, parsedTurns[0], parsedTurns[1])
	}
}
