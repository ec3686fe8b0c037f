package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// semantically is a gateway with the semantic cache, whose model is in memory, and which has the answer to one question.
func semantically(t *testing.T) (g *gateway.Gateway, o, n *fake.Server, opt gateway.Options) {
	t.Helper()
	g, o, n, opt = cachedBy(t, quick+"models: {dir: "+modeltest.Dir(t)+"}\n"+semanticOn)
	a := plainly(forms[0], "gpt-x", "What is the speed of light?")
	eventually(t, "the embedding model", func() bool {
		if _, k := asked(t, g, a); k == "semantic" {
			return true
		}
		_, k := asked(t, g, plainly(forms[0], "gpt-x", "What's the speed of light?"))
		return k == "semantic"
	})
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache"}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	mustKnow(t, g, a, "miss")
	o.Forget()
	return g, o, n, opt
}

// plainly is a question without a temperature, which the exact cache leaves alone. Both dialects can say all of it.
func plainly(a ask, model, question string) ask {
	a.model, a.say = model, question
	if a.dialect == fake.OpenAI {
		a.more = `"max_tokens":100`
	}
	return a
}

const semanticOn = "pipeline: {semantic: on, semantic_timeout: 10s}\n"

// TestC04AQuestionInOtherWordsIsAnsweredFromTheStore: in every form, whatever form it was asked in first; and it costs nothing.
func TestC04AQuestionInOtherWordsIsAnsweredFromTheStore(t *testing.T) {
	t.Parallel()
	g, o, n, _ := semantically(t)
	for i, first := range forms {
		for _, model := range []string{"gpt-x", "claude-x"} {
			city := []string{"Oslo", "Lima", "Cairo", "Seoul"}[i]
			p, b := o, fake.Behaviour{Text: "It is " + city + "."}
			if model == "claude-x" {
				p = n
			}
			p.Behave(b)
			p.Forget()
			mustKnow(t, g, plainly(first, model, "What is the population of "+city+"?"), "miss")
			for _, again := range forms {
				again := plainly(again, model, "tell me what the population of "+city+" is, please")
				got := mustKnow(t, g, again, "semantic")
				if s := text(t, again, got); s != b.Text {
					t.Errorf("%s: says %q", again.form(), s)
				}
				checkSemantic(t, again, got)
			}
			if calls := len(p.Generations()); calls != 1 {
				t.Errorf("%s, first as %s: the provider was asked %d times", model, first.form(), calls)
			}
		}
	}
	m := g.Metrics(t)
	if hits := m.Sum("bardo_semantic_cache_questions_total", `result="hit"`); hits < 32 || m.Sum("bardo_cache_requests_total", `result="semantic"`) < 32 || m.Sum("bardo_semantic_cache_entries") < 8 {
		t.Errorf("%v hits are counted", hits)
	}
}

var similarity = regexp.MustCompile(`^(0\.9[2-9]\d|1\.000)$`)

// checkSemantic: the answer shows how similar the questions are, what it saved, and that no provider was called; so does its record.
func checkSemantic(t *testing.T, a ask, got gateway.Answer) {
	t.Helper()
	how := got.Header.Get("X-Bardo-Similarity")
	if !similarity.MatchString(how) || got.Header.Get("X-Bardo-Attempts") != "0" || got.Header.Get("Age") == "" || !strings.Contains(got.Header.Get("X-Bardo-Pipeline"), "l2;dur=") {
		t.Errorf("%s: %v", a.form(), got.Header)
	}
	if a.stream {
		if !strings.Contains(got.Body, `"similarity":`+how+`,"cache":"semantic"`) {
			t.Errorf("%s: no similarity in %s", a.form(), got.Body)
		}
		return
	}
	if got.Header.Get("X-Bardo-Cost") != "0.000000" || got.Header.Get("X-Bardo-Savings") == "0.000000" {
		t.Errorf("%s: %v", a.form(), got.Header)
	}
}

// TestK59QuestionsThatLookAlikeAreNotAnswered, and none of another key's, model's, or conversation's (K-60).
func TestK59QuestionsThatLookAlikeAreNotAnswered(t *testing.T) {
	t.Parallel()
	g, o, _, _ := semantically(t)
	for _, row := range [][2]string{
		{"what is 2+2", "what is 2+3"},
		{"buy ETH now", "do not buy ETH now"},
		{"Is 0x52908400098527886E0F7030069857D2E4169EE7 a contract?", "Is 0x52908400098527886E0F7030069857D2E4169EE8 a contract?"},
		{"Swap ETH for USDC", "Swap USDC for ETH"},
		{"What happened on March 5, 2024?", "What happened on March 6, 2024?"},
		{"Soll ich ETH kaufen?", "Soll ich ETH nicht kaufen?"},
		{"What is the capital of Austria?", "What is the capital of Australia?"},
	} {
		mustKnow(t, g, plainly(forms[0], "gpt-x", row[0]), "miss")
		mustKnow(t, g, plainly(forms[0], "gpt-x", row[1]), "miss")
		mustKnow(t, g, plainly(forms[2], "gpt-x", row[0]), "semantic")
	}
	first, again := plainly(forms[0], "gpt-x", "How tall is Mount Everest?"), plainly(forms[2], "gpt-x", "What is the height of Mount Everest?")
	mustKnow(t, g, first, "miss")
	other := g.CreateKey(t, "--name", "other").Key
	c := again.call(fast)
	c.Key = other
	if k := known(t, again, g.Do(t, c)); k != "miss" {
		t.Errorf("another key gets %q", k)
	}
	if k := known(t, again, g.Do(t, c)); k != "semantic" {
		t.Errorf("another key gets %q the second time", k)
	}
	mustKnow(t, g, plainly(forms[2], "gpt-two", again.say), "miss")
	mustKnow(t, g, again, "semantic")
	if n := len(o.Generations()); n != 17 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// TestD31RequestsControlTheSemanticCache: what a request says, and what it is.
func TestD31RequestsControlTheSemanticCache(t *testing.T) {
	t.Parallel()
	g, o, _, _ := semantically(t)
	first, again := plainly(forms[0], "gpt-x", "How old is the Eiffel Tower?"), plainly(forms[0], "gpt-x", "What is the age of the Eiffel Tower?")
	with := func(a ask, more string) ask {
		a.more += more
		return a
	}
	mustKnow(t, g, with(first, `,"temperature":0.71`), "")
	mustKnow(t, g, first, "", "x-bardo-cache: off")
	mustKnow(t, g, first, "", "x-bardo-no-cache: true")
	mustKnow(t, g, first, "", "x-bardo-security-class: confidential")
	mustKnow(t, g, first, "", "x-bardo-pipeline: fast")
	mustKnow(t, g, first, "miss", "x-bardo-cache: no-store")
	if n := g.Metrics(t).Sum("bardo_cache_entries"); n != 1 { // that of the warm-up
		t.Errorf("%v entries are stored", n)
	}
	mustKnow(t, g, first, "miss")
	mustKnow(t, g, again, "", "x-bardo-cache: off")
	mustKnow(t, g, again, "", "x-bardo-no-cache: true")
	mustKnow(t, g, again, "", "x-bardo-security-class: confidential")
	mustKnow(t, g, again, "", "x-bardo-pipeline: minimal")
	mustKnow(t, g, with(again, `,"temperature":0.9`), "")
	mustKnow(t, g, with(again, `,"temperature":0.7`), "miss") // of another partition
	mustKnow(t, g, with(again, `,"n":2`), "")
	mustKnow(t, g, again, "semantic", "x-bardo-cache: no-store")
	mustKnow(t, g, again, "semantic", "x-bardo-cache: max-age=60")
	mustKnow(t, g, again, "miss", "x-bardo-cache: no-cache")
	if got := g.Do(t, again.call("x-bardo-cache: maybe")); got.Status != http.StatusBadRequest {
		t.Errorf("a wrong directive: %d %s", got.Status, got.Body)
	}
	if n := len(o.Generations()); n != 15 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// TestD31AShadowServesNothing, and shows what it would; off, and outside of its scope, the cache does not even look.
func TestD31AShadowServesNothing(t *testing.T) {
	t.Parallel()
	g, _, _, opt := semantically(t)
	base := strings.TrimSuffix(opt.Config, semanticOn)
	ask := func(say, want, did string) {
		t.Helper()
		again := plainly(forms[2], "gpt-x", say)
		if got := mustKnow(t, g, again, want).Header.Get("X-Bardo-Pipeline"); !strings.Contains(got, did) || did == "" && strings.Contains(got, "l2;") {
			t.Errorf("the pipeline says %q, want %q", got, did)
		}
	}
	const wondering, short = "I was wondering what the speed of light is", "speed of light"
	for _, row := range []struct{ config, say, want, did string }{
		{"pipeline: {semantic: shadow, semantic_timeout: 10s}\n", wondering, "miss", "shadow_hit;similarity=0.9"},
		{semanticOn, wondering, "semantic", "l2;"},
		{semanticOn + "inference: {caching: {threshold: 1}}\n", short, "miss", "below;similarity=0."},
		{"pipeline: {semantic: off}\n", wondering, "", ""},
		{"", wondering, "", ""},
		{"pipeline: {semantic: on, semantic_timeout: 10s, semantic_only: {models: [gpt-two]}}\n", wondering, "", ""},
		{"pipeline: {semantic: on, semantic_timeout: 10s, semantic_only: {models: [gpt-x], keys: [nobody]}}\n", wondering, "", ""},
		{"pipeline: {semantic: on, semantic_timeout: 10s, semantic_only: {models: [gpt-x]}}\n", wondering, "semantic", "l2;"},
	} {
		opt.Config = base + row.config
		reload(t, g, opt)
		ask(row.say, row.want, row.did)
	}
	if n := g.Metrics(t).Sum("bardo_semantic_cache_questions_total", `result="shadow_hit"`); n != 1 {
		t.Errorf("%v shadow hits are counted", n)
	}
}

// TestK65AWrongHitIsRemovedByOneCall: by the id of the request that it answered; and the two questions are not taken for each other again.
func TestK65AWrongHitIsRemovedByOneCall(t *testing.T) {
	t.Parallel()
	g, _, _, _ := semantically(t)
	first, again := plainly(forms[0], "gpt-x", "Who invented the telephone?"), plainly(forms[2], "gpt-x", "Who was the inventor of the telephone?")
	asked := mustKnow(t, g, first, "miss")
	hit := mustKnow(t, g, again, "semantic")
	var record struct {
		Cache      string
		CacheEntry string `json:"cache_entry"`
		Similarity float64
	}
	get(t, g, g.Key, "/v1/requests/"+hit.Header.Get("X-Request-Id"), &record)
	if strconv.FormatFloat(record.Similarity, 'f', 3, 64) != hit.Header.Get("X-Bardo-Similarity") || record.Cache != "semantic" || len(record.CacheEntry) != 16 {
		t.Errorf("record %+v", record)
	}
	remove := func(query string, status, deleted int, more string) {
		t.Helper()
		got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache" + query})
		if got.Status != status || status == http.StatusOK && !strings.Contains(got.Body, fmt.Sprintf(`"deleted":%d%s}`, deleted, more)) {
			t.Errorf("DELETE %s: %d %s", query, got.Status, got.Body)
		}
	}
	byRequest := "?request=" + hit.Header.Get("X-Request-Id")
	remove(byRequest+"&dry_run=true", 200, 1, `,"dry_run":true`)
	remove("/"+record.CacheEntry+"?dry_run=true", 200, 1, `,"dry_run":true`)
	remove("?model=gpt-x&dry_run=true", 200, 2, `,"dry_run":true`)
	remove("?model=gpt-y&dry_run=true", 200, 0, `,"dry_run":true`)
	remove("?dry_run=true", 200, 2, `,"dry_run":true`)
	for _, slip := range []string{"?dry_run=yes", "?dry_run=", "?epoch=7", "?request=", byRequest + "&model=gpt-x", byRequest + "&request=x", "?epoch=new&model=gpt-x", "/" + record.CacheEntry + byRequest} {
		remove(slip, 400, 0, "")
	}
	remove("?request=req_unknown", 404, 0, "")
	other := g.CreateKey(t, "--name", "other").Key
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache" + byRequest, Key: other}); got.Status != http.StatusNotFound {
		t.Errorf("another key removes it: %d %s", got.Status, got.Body)
	}
	mustKnow(t, g, again, "semantic")
	remove(byRequest, 200, 1, "")
	remove(byRequest, 404, 0, "")
	mustKnow(t, g, again, "miss")
	mustKnow(t, g, first, "miss")
	mustKnow(t, g, again, "miss")
	off := mustKnow(t, g, first, "", "x-bardo-cache: off")
	remove("?request="+off.Header.Get("X-Request-Id"), 404, 0, "") // it has nothing to do with the cache
	remove("?request="+asked.Header.Get("X-Request-Id"), 200, 1, "")
	mustKnow(t, g, plainly(forms[0], "gpt-x", "Tell me what the speed of light is"), "semantic")
	remove("?epoch=new&dry_run=true", 200, 2, `,"dry_run":true`)
	remove("?epoch=new", 200, 2, `,"epoch":2`)
	var l struct{ Epoch, Entries int }
	get(t, g, g.Key, "/v1/cache", &l)
	if l.Epoch != 2 || l.Entries != 0 {
		t.Errorf("listing %+v", l)
	}
	mustKnow(t, g, plainly(forms[0], "gpt-x", "Tell me what the speed of light is"), "miss")
}

// TestC06AnswersOfAnotherRegimeAreNotServed: neither by the exact cache nor by the semantic one, once an agent says that its market has changed.
func TestC06AnswersOfAnotherRegimeAreNotServed(t *testing.T) {
	t.Parallel()
	g, _, _, _ := semantically(t)
	exact, like, again := forms[0].about("gpt-x", "How much does gold cost?"), plainly(forms[0], "gpt-x", "How much does silver cost?"), plainly(forms[2], "gpt-x", "What is the price of silver?")
	golem := []string{"x-bardo-golem-id: g1"}
	in := func(regime string) []string { return append([]string{"x-bardo-regime: " + regime}, golem...) }
	mustKnow(t, g, exact, "miss", in("calm")...)
	mustKnow(t, g, like, "miss", in("calm")...)
	mustKnow(t, g, exact, "hash", in("calm")...)
	mustKnow(t, g, exact, "hash", golem...)
	mustKnow(t, g, again, "semantic", in("calm")...)
	mustKnow(t, g, exact, "hash", "x-bardo-golem-id: g2")
	mustKnow(t, g, again, "miss", in("wild")...)
	mustKnow(t, g, exact, "miss", golem...)
	mustKnow(t, g, exact, "hash", in("wild")...)
	mustKnow(t, g, exact, "miss", in("calm")...) // nothing comes back
	var l listing
	get(t, g, g.Key, "/v1/cache", &l)
	if l.Entries != 2 {
		t.Errorf("%d entries are left", l.Entries)
	}
}

// TestAGatewayWithoutAModelSaysThatTheSemanticCacheIsOff, and serves.
func TestAGatewayWithoutAModelSaysThatTheSemanticCacheIsOff(t *testing.T) {
	t.Parallel()
	g, _, _, _ := cachedBy(t, quick+"models: {embedding: \"off\"}\n"+semanticOn)
	a := plainly(forms[0], "gpt-x", "What is the speed of light?")
	mustKnow(t, g, a, "")
	mustKnow(t, g, a, "")
	if !strings.Contains(g.Log(), "the semantic cache is off") {
		t.Errorf("the log says %s", g.Log())
	}
}

// TestC14AnswersOutliveARestartOfTheGateway: of both caches, unless they are confidential or deleted; and the file shows nothing of them.
func TestC14AnswersOutliveARestartOfTheGateway(t *testing.T) {
	t.Parallel()
	g, o, _, opt := cachedBy(t, quick+"models: {dir: "+modeltest.Dir(t)+"}\n"+semanticOn+"store: {cache: \"sqlite://$BARDO_HOME/cache.db\", cache_key: a-secret-key}\n")
	o.Behave(fake.Behaviour{Text: "It is Ouagadougou."})
	exact, like := forms[0].about("gpt-x", "Name the capital of Burkina Faso"), plainly(forms[0], "gpt-x", "What is the population of Burkina Faso?")
	secret, removed := forms[0].about("gpt-x", "A confidential question"), forms[0].about("gpt-x", "A question that is removed")
	mustKnow(t, g, exact, "miss")
	mustKnow(t, g, like, "miss")
	mustKnow(t, g, secret, "miss", "x-bardo-security-class: confidential")
	gone := mustKnow(t, g, removed, "miss")
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache?request=" + gone.Header.Get("X-Request-Id")}); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(g.Home, "cache.db"))
	if err != nil || bytes.Contains(b, []byte("Ouagadougou")) || bytes.Contains(b, []byte("Burkina")) || bytes.Contains(b, []byte("gpt-x")) {
		t.Errorf("the file shows what is stored, or is not there: %v", err)
	}
	o.Forget()
	opt.Home = g.Home
	again := gateway.Run(t, opt)
	again.Key = g.Key
	mustKnow(t, again, exact, "hash")
	eventually(t, "the embedding model", func() bool {
		_, k := asked(t, again, plainly(forms[0], "gpt-x", "What is the speed of light?"))
		return k == "semantic"
	})
	mustKnow(t, again, plainly(forms[3], "gpt-x", "tell me the population of Burkina Faso"), "semantic")
	mustKnow(t, again, secret, "miss", "x-bardo-security-class: confidential")
	mustKnow(t, again, removed, "miss")
}
