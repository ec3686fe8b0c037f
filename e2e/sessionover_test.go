package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/proctest"
)

// exit is a way in which a request is answered.
type exit struct {
	call  gateway.Call
	cache string // what X-Bardo-Cache says of the answer; "-": it does not matter
}

// TestC16ASessionThatIsOverIsAnsweredFromNowhere: neither by a provider nor from a store, neither at the gateway's expense nor with the user's own key. What was accepted
// before its end is answered.
func TestC16ASessionThatIsOverIsAnsweredFromNowhere(t *testing.T) {
	t.Parallel()
	o, own := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-o"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Key: "sk-own"})
	g := gateway.Run(t, gateway.Options{Home: proctest.Dir(t), Config: quick + "models: {dir: " + modeltest.Dir(t) + "}\n" + semanticOn + fmt.Sprintf(`
inference: {embeddings: {provider: local}}
providers:
  custom: [{id: o, endpoints: [%q], api_key: sk-o, models: [{id: gpt-x, price: {input: 1, output: 1}}]}]
  direct: {keys: [{provider: openai, api_key: sk-own, base_url: %q, models: [gpt-4o]}]}
`, o.URL, own.URL)})
	l := &sessionLab{Gateway: g, p: o, owner: g.CreateKey(t, "--name", "owner", "--balance-usd", "5")}
	s := l.create(t, l.owner.Key, `{"budget_usd":1}`)
	named := func(a ask, header ...string) gateway.Call {
		c := a.call(append(header, fast, "X-Bardo-Session-Id: "+s.ID)...)
		c.Key = l.owner.Key
		return c
	}
	exact := ask{dialect: fake.OpenAI, model: "gpt-x", more: `"temperature":0`, say: "twice the same"}
	question := plainly(ask{dialect: fake.OpenAI}, "gpt-x", "What is the speed of light?")
	eventually(t, "the semantic cache", func() bool {
		a := g.Do(t, named(question))
		b := g.Do(t, named(plainly(ask{dialect: fake.OpenAI}, "gpt-x", "What's the speed of light?")))
		return a.Status == http.StatusOK && b.Header.Get("X-Bardo-Cache") == "semantic"
	})
	exits := map[string]exit{
		"the exact cache":      {named(exact), "hash"},
		"the exact cache, SSE": {named(ask{dialect: fake.Anthropic, model: "gpt-x", stream: true, more: `"temperature":0`, say: "twice the same"}), "-"},
		"the semantic cache":   {named(plainly(ask{dialect: fake.OpenAI}, "gpt-x", "What's the speed of light?")), "semantic"},
		"a provider":           {named(ask{dialect: fake.OpenAI, model: "gpt-x", more: `"temperature":1`}), ""},
		"the user's own key":   {named(ask{dialect: fake.OpenAI, model: "gpt-4o"}), "-"},
		"a token count":        {gateway.Call{Path: "/v1/messages/count_tokens", Key: l.owner.Key, Header: []string{"anthropic-version: 2023-06-01", "X-Bardo-Session-Id: " + s.ID}, Body: `{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`}, "-"},
		"a local model":        {gateway.Call{Path: "/v1/embeddings", Key: l.owner.Key, Header: []string{"X-Bardo-Session-Id: " + s.ID}, Body: `{"model":"` + localModel + `","input":"hi"}`}, "-"},
		"a stored resource":    {gateway.Call{Path: "/v1/files", Key: l.owner.Key, Header: []string{"X-Bardo-Session-Id: " + s.ID}}, "-"},
	}
	g.Do(t, named(exact))
	for about, e := range exits {
		if got := g.Do(t, e.call); got.Status != http.StatusOK || e.cache != "-" && got.Header.Get("X-Bardo-Cache") != e.cache {
			t.Errorf("%s, before the end: %d %q %s", about, got.Status, got.Header.Get("X-Bardo-Cache"), got.Body)
		}
	}
	later := named(ask{dialect: fake.OpenAI, model: "gpt-x", more: `"temperature":1,"max_tokens":10`, say: "later"}, "X-Bardo-Defer: 1h")
	o.Behave(fake.Behaviour{HeaderDelay: time.Second})
	var accept accepted
	first := g.Do(t, later)
	if first.JSON(t, &accept); first.Status != http.StatusAccepted {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/sessions/" + s.ID, Key: l.owner.Key}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var got gateway.Answer
	eventually(t, "the deferred answer", func() bool {
		got = g.Do(t, gateway.Call{Path: accept.AnswerURL, Key: l.owner.Key})
		return got.Status != http.StatusAccepted
	})
	if got.Status != http.StatusOK {
		t.Errorf("the deferred request: %d %s", got.Status, got.Body)
	}

	leader := ask{dialect: fake.OpenAI, model: "gpt-x", more: `"temperature":0`, say: "together"}
	o.Forget()
	o.Behave(fake.Behaviour{FirstToken: 2 * time.Second})
	var wg sync.WaitGroup
	wg.Go(func() { g.Do(t, leader.call()) })
	if _, err := o.WaitGenerations(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	exits["a coalesced answer"] = exit{call: named(leader)}
	exits["a deferred request"] = exit{call: later}
	calls := len(o.Generations()) + len(own.Calls())
	for about, e := range exits {
		if got := g.Do(t, e.call); got.Status != http.StatusForbidden || e.call.Path != "/v1/messages/count_tokens" && e.call.Path != "/v1/messages" && errorCode(t, got) != "key_restricted" {
			t.Errorf("%s, after the end: %d %s", about, got.Status, got.Body)
		}
	}
	wg.Wait()
	if n := len(o.Generations()) + len(own.Calls()); n != calls {
		t.Errorf("%d calls of a session that is over reached a provider", n-calls)
	}
	g.AssertSound(t)
}

func errorCode(t *testing.T, got gateway.Answer) string {
	t.Helper()
	var v struct {
		Error struct{ Code string } `json:"error"`
	}
	got.JSON(t, &v)
	return v.Error.Code
}
