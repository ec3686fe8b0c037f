package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// requestsOfEach is how many requests each worker sends.
const requestsOfEach = 110

// work sends random requests one after the other, and returns how many of each kind were served.
func (l *apartLab) work(t *testing.T, r *rand.Rand, worker int) map[string]int {
	t.Helper()
	served := map[string]int{}
	for i := range requestsOfEach {
		l.misbehave(r)
		a, kind := l.accounts[r.IntN(len(l.accounts))], &apartKinds[r.IntN(len(apartKinds)-1)]
		c, own := l.randomCall(r, a, kind, worker*requestsOfEach+i)
		got := l.Do(t, c)
		a.mu.Lock()
		a.ids = append(a.ids, got.Header.Get("X-Request-Id"))
		a.mu.Unlock()
		if got.Status == http.StatusOK {
			served[kind.name]++
		}
		if got.Status == http.StatusInternalServerError {
			t.Errorf("%s of %s: %d %s", kind.name, a.Name, got.Status, got.Body)
		}
		l.recordAnswer(t, a, kind, own, got)
		if r.IntN(6) == 0 {
			l.requestOfOthers(t, r, a)
		}
	}
	return served
}

// misbehave has a provider fail in some way for a while; most of the time it says what it got.
func (l *apartLab) misbehave(r *rand.Rand) {
	names := []string{"open", "rival", "venice", "quiet", "vault"}
	b := fake.Behaviour{}
	if r.IntN(3) == 0 {
		b = injected(r)
	}
	if b.Echo = ofAccount; r.IntN(4) == 0 {
		again := fake.Behaviour{Echo: ofAccount}
		b = fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "bardo_recall", Args: fmt.Sprintf(`{"id":"r%d"}`, 1+r.IntN(3)), Pieces: 1 + r.IntN(4)}}, Answered: &again}
	}
	l.fakes[names[r.IntN(len(names))]].Behave(b)
}

// recall has a model fetch back what was left out of one more request of each account: by chance alone, none may have.
func (l *apartLab) recall(t *testing.T) {
	t.Helper()
	for _, f := range l.fakes {
		f.Behave(fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "bardo_recall", Args: `{"id":"r1"}`}}, Answered: &fake.Behaviour{Echo: ofAccount}})
	}
	kind := &apartKinds[0]
	for _, a := range l.accounts {
		own := fmt.Sprintf("MK%s-%s-recalled-KM", a.Name, kind.name)
		body := strings.ReplaceAll(recallBody(fake.OpenAI, "shared", false), "4711", own)
		got := l.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Key: a.Key, Header: []string{"X-Bardo-Pipeline: full", "X-Bardo-Cache: no-store"},
			Body: strings.Replace(body, `],"tools":`, fmt.Sprintf(`,{"role":"user","content":"What was %s?"}],"tools":`, own), 1),
		})
		l.recordAnswer(t, a, kind, own, got)
	}
}

// questions are asked by everybody, in several words: nothing in them tells who asks.
var questions = []string{
	"What is the capital of France?", "What's the capital of France?", "Which city is the capital of France?", "What is the speed of light?", "What's the speed of light?", "How fast is light?",
}

// randomCall is a request of an account. own is what was planted in it; "" for a question of everybody's.
func (l *apartLab) randomCall(r *rand.Rand, a *apart, kind *sealedKind, n int) (c gateway.Call, own string) {
	q := ask{dialect: pick(r, fake.OpenAI, fake.Anthropic), model: "shared", stream: r.IntN(2) == 0, say: pick(r, questions...)}
	if q.dialect == fake.OpenAI {
		q.more = pick(r, `"max_tokens":100`, `"max_tokens":100,"temperature":0`)
	}
	if kind.schema {
		q.dialect, q.more = fake.OpenAI, asSchema
	}
	if r.IntN(2) == 0 { // it may be answered by what was said to somebody else
		c = q.call(kind.header...)
		c.Key = a.Key
		return c, ""
	}
	own = fmt.Sprintf("MK%s-%s-%d-KM", a.Name, kind.name, n)
	q.model, q.say = pick(r, "auto", "shared"), q.say+fmt.Sprintf(" It is about %s, for jane.%s.%d@example.com.", own, kind.name, n)
	c = q.call(kind.header...)
	switch {
	case kind.schema:
	case r.IntN(3) == 0: // what was left out is recalled
		c.Body = strings.ReplaceAll(recallBody(q.dialect, q.model, q.stream), "4711", own)
		c.Body = strings.Replace(c.Body, `],"tools":`, fmt.Sprintf(`,{"role":"user","content":%q}],"tools":`, q.say), 1)
	case r.IntN(2) == 0 && q.dialect == fake.OpenAI: // old turns are summarised
		c.Body = history{model: q.model, secret: own, turns: 12, stream: q.stream, more: `,"max_tokens":90`}.body(q.say)
	}
	if r.IntN(5) == 0 {
		c.Body = named(r, c.Body, own)
	}
	c.Header = append(slices.Clone(c.Header), "X-Bardo-Golem-Id: golem-of-"+a.Name)
	if h := pick(r, "", "X-Bardo-Cache: no-store", "X-Bardo-Pipeline: full", "X-Bardo-Pipeline: full", "X-Bardo-Surface: discord", "X-Bardo-Escalate: auto"); h != "" {
		c.Header = append(c.Header, h)
	}
	if r.IntN(8) == 0 && kind.may == nil && !q.stream {
		c.Header = append(c.Header, "X-Bardo-Defer: 1h")
	}
	if c.Key = a.Key; r.IntN(4) == 0 {
		c.Key = a.session.Key
	}
	return c, own
}

// named is a request in which what was planted is a name: of a tool, a schema, a member, a resource, or where nobody expects a text, so that an error may quote it.
func named(r *rand.Rand, body, own string) string {
	tool := fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}}}`, own, own, own, own)
	schema := func(s string) string {
		return fmt.Sprintf(`"response_format":{"type":"json_schema","json_schema":{"name":%q,"strict":true,"schema":%s}}`, own, s)
	}
	more := pick(r,
		`"tools":[`+tool+`]`, `"tools":[`+tool+`,`+tool+`]`, `"tools":[`+tool+`],"tool_choice":{"type":"function","function":{"name":"`+own+`x"}}`,
		schema(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q],"additionalProperties":false}`, own, own)), schema(fmt.Sprintf(`{"type":%q}`, own)),
		schema(fmt.Sprintf(`{"$ref":"#/$defs/%s"}`, own)), schema(fmt.Sprintf(`{"type":"object","properties":{"a":{"pattern":"(%s"}}}`, own)),
		fmt.Sprintf(`"metadata":{"user_id":%q,%q:"x"}`, own, own), fmt.Sprintf(`"user":%q`, own), fmt.Sprintf(`"stop":[%q]`, own), fmt.Sprintf(`%q:1,%q:2`, own, own), fmt.Sprintf(`%q:{"a":[]}`, own),
		fmt.Sprintf(`"temperature":%q`, own), fmt.Sprintf(`"top_p":[%q]`, own), fmt.Sprintf(`"reasoning_effort":%q`, own), fmt.Sprintf(`"service_tier":%q`, own), fmt.Sprintf(`"prompt_cache_key":%q`, own),
		fmt.Sprintf(`"bardo":{%q:1}`, own), fmt.Sprintf(`"bardo":{"task_class":%q}`, own), fmt.Sprintf(`"venice_parameters":{"character_slug":%q}`, own), `"x":`+own, fmt.Sprintf(`"stream_options":{%q:true}`, own),
		fmt.Sprintf(`"previous_response_id":%q`, own), fmt.Sprintf(`"modalities":[%q]`, own), fmt.Sprintf(`"audio":{"voice":%q}`, own), fmt.Sprintf(`"web_search_options":{%q:1}`, own), fmt.Sprintf(`"models":[%q]`, own),
	)
	odd := pick(r, fmt.Sprintf(`{"role":%q,"content":"x"},`, own), fmt.Sprintf(`{"role":"user","content":[{"type":%q}]},`, own), fmt.Sprintf(`{"role":"user","content":[{"type":"file","file":{"file_id":%q}}]},`, own),
		fmt.Sprintf(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://%s.example/a.png"}}]},`, own), fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"x"},`, own),
		fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":%q,"arguments":"{%s"}}]},`, own, own))
	if r.IntN(3) == 0 {
		return strings.Replace(body, `"messages":[`, `"messages":[`+odd, 1)
	}
	return strings.Replace(body, "{", "{"+more+",", 1)
}

// recordAnswer looks at what an answer says, and notes who got it.
func (l *apartLab) recordAnswer(t *testing.T, a *apart, kind *sealedKind, own string, got gateway.Answer) {
	t.Helper()
	said := fmt.Sprint(got.Header) + got.Body
	for _, m := range ofAccount.FindAllStringSubmatch(said, -1) {
		if m[1] != a.Name {
			t.Errorf("%s, %s, which planted %q, got %s: %v", a.Name, kind.name, own, m[0], got.Header)
		}
	}
	for _, other := range l.accounts {
		if other != a && (strings.Contains(said, other.ID) || strings.Contains(said, "golem-of-"+other.Name)) {
			t.Errorf("%s got something of %s: %s", a.Name, other.Name, said)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, word := range ofAnswer.FindAllString(got.Body, -1) {
		if l.recipients[word] == nil {
			l.recipients[word] = map[string]bool{}
		}
		l.recipients[word][a.plan+" "+a.Name+" "+kind.name] = true
	}
}

// assertHeard: an answer was given to one account alone, or, if it was neither private nor confidential, to several of the plan whose keys share answers.
func (l *apartLab) assertHeard(t *testing.T) {
	t.Helper()
	for word, by := range l.recipients {
		accounts, free := map[string]bool{}, true
		for who := range by {
			f := strings.Fields(who)
			accounts[f[1]] = true
			free = free && f[0] == "free" && f[2] == "standard"
		}
		if len(accounts) > 1 && !free {
			t.Errorf("%s was given to %v", word, by)
		}
	}
	if len(l.recipients) < 20 {
		t.Errorf("only %d answers were recorded", len(l.recipients))
	}
	m := l.Metrics(t)
	for what, n := range map[string]float64{
		"recalls": m.Sum("bardo_layer_calls_total", `layer="l5"`), "answers of the exact cache": m.Sum("bardo_cache_requests_total", `result="hash"`),
		"answers of the semantic cache": m.Sum("bardo_cache_requests_total", `result="semantic"`),
	} {
		if n == 0 {
			t.Errorf("there were no %s: nothing was shown", what)
		}
	}
}

// requestOfOthers requests what belongs to other accounts.
func (l *apartLab) requestOfOthers(t *testing.T, r *rand.Rand, a *apart) {
	t.Helper()
	victim := l.accounts[r.IntN(len(l.accounts))]
	victim.mu.Lock()
	ids := slices.Clone(victim.ids)
	victim.mu.Unlock()
	if len(ids) == 0 || victim == a {
		return
	}
	id := ids[r.IntN(len(ids))]
	for _, path := range []string{"/v1/requests/" + id + "/answer", "/v1/requests/" + id + "/reasoning", "/v1/sessions/" + victim.session.ID + "/memory/doc"} {
		if got := l.Do(t, gateway.Call{Path: path, Key: pick(r, a.Key, a.session.Key)}); got.Status == http.StatusOK || strings.Contains(got.Body, "MK") {
			t.Errorf("%s sees %s of %s: %d %s", a.Name, path, victim.Name, got.Status, got.Body)
		}
	}
}

// assertCalls looks through every byte that reached providers and hooks.
func (l *apartLab) assertCalls(t *testing.T) {
	t.Helper()
	saw := map[string][]string{}
	for name, p := range l.fakes {
		for _, r := range p.Requests() {
			saw[name] = append(saw[name], r.Path+"\n"+r.RawQuery+"\n"+fmt.Sprint(r.Header)+"\n"+string(r.Body))
		}
	}
	for name, h := range l.hooks {
		saw[name] = h.questions()
	}
	for name, texts := range saw {
		if len(texts) == 0 {
			t.Errorf("%s was never called: nothing was shown", name)
		}
		for _, text := range texts {
			all := ofAccount.FindAllStringSubmatch(text, -1)
			for _, m := range all {
				kind := apartKinds[slices.IndexFunc(apartKinds, func(k sealedKind) bool { return k.name == m[2] })]
				if kind.may != nil && !slices.Contains(kind.may, name) {
					t.Errorf("%s saw %s", name, m[0])
				}
				if m[1] != all[0][1] {
					t.Errorf("%s saw %s and %s in one call", name, m[0], all[0][0])
				}
			}
			for _, mail := range anyMail.FindAllString(text, -1) {
				if strings.HasPrefix(mail, "jane.confidential.") {
					t.Errorf("%s saw %s of a confidential request", name, mail)
				}
			}
		}
	}
}

// assertTold looks for what was planted in all that the gateway tells or writes.
func (l *apartLab) assertTold(t *testing.T) {
	t.Helper()
	eventually(t, "telemetry has come", func() bool { return bytes.Contains(l.receiver.bytes(), []byte("chat ")) })
	o := operatorOf(t, l.Gateway)
	told := map[string][]byte{"metrics": fmt.Append(nil, l.Metrics(t)), "the receiver of telemetry": l.receiver.bytes()}
	for _, path := range []string{"/requests?limit=1000", "/usage/table?by=key,model,subsystem", "/cache", "/providers", "/keys"} {
		_, body := o.call(http.MethodGet, path, "")
		told["/admin/v1"+path] = []byte(body)
	}
	for _, a := range l.accounts {
		for _, path := range []string{"/v1/usage", "/v1/usage?by=golem,subsystem,model", "/v1/cache", "/venice/status", "/venice/telemetry?limit=500", "/venice/attestations?limit=500", "/v1/balance"} {
			told[a.Name+" "+path] = []byte(l.Do(t, gateway.Call{Path: path, Key: a.Key}).Body)
		}
		a.mu.Lock()
		told[a.Name+" streams"] = bytes.Clone(a.told.Bytes())
		a.mu.Unlock()
		for _, id := range a.ids[max(0, len(a.ids)-12):] {
			told[a.Name+" record "+id] = []byte(l.Do(t, gateway.Call{Path: "/v1/requests/" + id, Key: a.Key}).Body)
		}
		if !bytes.Contains(told[a.Name+" streams"], []byte("golem-of-"+a.Name)) {
			t.Errorf("the streams of %s told nothing", a.Name)
		}
	}
	for _, dir := range []string{l.Home, l.files} {
		maps.Copy(told, filesBelow(t, dir))
	}
	for what, b := range told {
		for _, secret := range []*regexp.Regexp{ofAccount, anyMail, ofAnswer} {
			if at := secret.FindIndex(b); at != nil {
				t.Errorf("%s has %s: …%q…", what, b[at[0]:at[1]], b[max(0, at[0]-300):min(len(b), at[1]+100)])
			}
		}
		owner, _, isOf := strings.Cut(what, " ")
		for _, other := range l.accounts {
			if isOf && slices.ContainsFunc(l.accounts, func(a *apart) bool { return a.Name == owner }) && other.Name != owner && (bytes.Contains(b, []byte("golem-of-"+other.Name)) || bytes.Contains(b, []byte(other.ID))) {
				t.Errorf("%s has something of %s", what, other.Name)
			}
		}
	}
}
