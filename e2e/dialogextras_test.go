package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/seedtest"
)

// Words by which the services beside a random conversation decide, and what they do: one replaces the first, refuses what has the second, and fails at the third.
const replacedWord, replacement, refusedWord, failingWord = "MARZIPAN", "NOUGAT", "WORMWOOD", "ABSINTHE"

// dialogExtras is what a pair of gateways has in addition to the layers and their providers.
type dialogExtras struct {
	rules    []dialogRule
	guard    []string        // when the guardrail looks; nil: there is none
	strict   bool            // what it does not look at is refused
	private  map[string]bool // models, guard, search and helper
	semantic string
	summary  bool
	search   bool
	services [2]dialogServices
}

// dialogServices are those of a side.
type dialogServices struct {
	helper        *fake.Server // of a cheap model, which writes summaries
	guard, search *hook
	fails         bool // the helper
}

// dialogRule is a rule of the tool firewall: of tools whose names begin so, none may be offered, or those may not be called whose path is a certain text.
type dialogRule struct {
	prefix, then string
	narrow       bool
	shadow       bool
}

const narrowText = "text 1"

func (d dialogRule) yaml(i int) string {
	what := fmt.Sprintf("deny: [%q]", d.prefix+"*")
	if d.narrow {
		what = fmt.Sprintf("tools: [%q], condition: %q", d.prefix+"*", `!has(args.path) || type(args.path) == string && args.path != "`+narrowText+`"`)
	}
	return fmt.Sprintf("{id: r%d, %s, on_violation: %s, shadow: %v}", i, what, d.then, d.shadow)
}

// objects reports whether the rule does not let a tool be called with arguments.
func (d dialogRule) objects(name string, args any) bool {
	if d.shadow || !strings.HasPrefix(name, d.prefix) {
		return false
	}
	path, has := args.(object)["path"]
	text, is := path.(string)
	return !d.narrow || has && (!is || text == narrowText)
}

func newDialogExtras(r *rand.Rand) *dialogExtras {
	b := &dialogExtras{
		guard: pick(r, nil, []string{"request"}, []string{"response"}, []string{"request", "response"}), strict: r.IntN(2) == 0, private: map[string]bool{},
		semantic: pick(r, "off", "off", "on", "shadow"), summary: r.IntN(3) > 0, search: r.IntN(3) == 0,
	}
	for range r.IntN(4) {
		b.rules = append(b.rules, dialogRule{pick(r, "swap_", "market_", "read_", "get_"), pick(r, "remove", "remove", "refuse", "flag"), r.IntN(2) == 0, r.IntN(8) == 0})
	}
	for _, name := range append(sortedKeys(dialogModels), "guard", "search", "helper") {
		b.private[name] = r.IntN(2) == 0
	}
	return b
}

// config is the part of the configuration that is about them, for a side.
func (b *dialogExtras) config(t *testing.T, r *rand.Rand, i int) (pipeline, rest string) {
	t.Helper()
	rules := make([]string, len(b.rules))
	for k, d := range b.rules {
		rules[k] = d.yaml(k)
	}
	tools, models := "mode: auto, meta: "+pick(r, "auto", "on"), `injection: "off", embedding: "off"`
	if b.semantic != "off" { // whose model would rank tools once it has read them
		tools, models = `mode: "off"`, `injection: "off", dir: `+modeltest.Dir(t)
	}
	pipeline = fmt.Sprintf("\n  semantic: %s\n  semantic_timeout: 10s\n  tools: {%s}\n  firewall: {rules: [%s]}\n", b.semantic, tools, strings.Join(rules, ", "))
	pipeline += fmt.Sprintf("  compression: {recall: %s, summary: %q, summary_trigger_tokens: 3000, summary_timeout: 20s}\n", pick(r, `"on"`, `"off"`), map[bool]string{true: "on", false: "off"}[b.summary])
	onError := map[bool]string{true: "refuse", false: "allow"}[b.strict]
	if b.guard != nil {
		pipeline += fmt.Sprintf("  guardrails: [{name: guard, url: %q, when: [%s], on_error: %s, timeout: 10s, private: %v}]\n", b.services[i].guard.URL, strings.Join(b.guard, ", "), onError, b.private["guard"])
	}
	if b.search {
		pipeline += fmt.Sprintf("  retrieval: {hooks: [{name: search, url: %q, timeout: 10s, private: %v}]}\n", b.services[i].search.URL, b.private["search"])
	}
	return pipeline, fmt.Sprintf("models: {%s}\ndeferred: {key: a long secret of the operator's, batches: false, poll: 100ms}\ninference: {tiers: {T1: {provider: helper/mini}}}\n", models)
}

// verdict is what the guardrail says about texts: replaced, refused or failed.
func verdict(texts ...string) string {
	all := strings.Join(texts, "\n")
	switch {
	case strings.Contains(all, failingWord):
		return "failed"
	case strings.Contains(all, refusedWord):
		return "refused"
	}
	return "replaced"
}

// looks is the guardrail's answer to a question.
func looks(q map[string]any) string {
	texts := textsIn(q)
	switch verdict(texts...) {
	case "failed":
		return `{"action":"perhaps"}`
	case "refused":
		return `{"action":"refuse"}`
	}
	return replacing(replacement)(q)
}

// newExtrasPair starts two gateways with the services.
func newExtrasPair(t *testing.T, r *rand.Rand) *dialogPair {
	t.Helper()
	b := newDialogExtras(r)
	p := &dialogPair{extras: b}
	pii := pick(r, "mask", "mask", "mask", "detect")
	p.masks = pii == "mask"
	seed := r.Uint64()
	common := fmt.Sprintf("pipeline:\n  default: %s\n  hash: %s\n  pii: {policy: %s, secret: same, patterns: {employee: {regexp: 'EMP-\\d{6}', examples: [EMP-004711]}}}\n  injection: {policy: %s, on_error: allow}",
		pick(r, "minimal", "fast", "standard", "full", "full"), pick(r, `"on"`, "all", `"off"`), pii, pick(r, `"off"`, "quarantine"))
	for i := range p.sides {
		s := newDialogSide(t)
		p.sides[i] = s
		s.newServices(t, &b.services[i])
		pipeline, rest := b.config(t, rand.New(rand.NewPCG(seed, 0)), i)
		p.config = quick + common + pipeline + rest
		helper := gateway.Provider{ID: "helper", Format: "anthropic", Fake: b.services[i].helper, More: fmt.Sprintf("private: %v", b.private["helper"]), Models: []gateway.Model{{ID: "mini", Price: "{input: 1, output: 2}", More: "quality: low, reasoning: none"}}}
		s.run(t, i, gateway.Options{Config: p.config, Providers: []gateway.Provider{helper}}, func(model string) gateway.Provider {
			row := s.row(model)
			row.ID, row.Models = "of-"+strings.ReplaceAll(model, ".", "-"), []gateway.Model{{ID: model, Price: "{input: 10, output: 20}"}}
			if row.More = fmt.Sprintf("private: %v", b.private[model]); model == onlyInResponses {
				row.More += ", responses: true"
			}
			return row
		})
	}
	return p
}

// newServices starts what stands beside a side's providers.
func (s *dialogSide) newServices(t *testing.T, o *dialogServices) {
	t.Helper()
	o.guard, o.search, o.helper = newHook(t), newHook(t), fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "helper"})
	o.guard.decides(looks)
	o.helper.Behave(fake.Behaviour{From: func(r *fake.Request) fake.Behaviour { return s.summarise(r, o.fails) }})
}

// summarise says what the cheap model makes of a history: it names the values that are in it.
func (s *dialogSide) summarise(r *fake.Request, fails bool) fake.Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := dialogSaid{body: r.Body, model: "mini"}
	said.seen, _ = seenIn(r) // it was read before
	said.b = fake.Behaviour{Text: "They spoke about small matters.", Usage: &fake.Usage{Input: 1000, Output: 50}}
	for _, text := range said.seen.texts {
		for _, m := range ownedHolder.FindAllString(text, 5) {
			said.b.Text += " It was about " + m + " and so on."
		}
	}
	if fails {
		said.b = fake.Behaviour{Status: http.StatusInternalServerError}
	}
	s.others = append(s.others, said)
	return said.b
}

// finds has the service of documents find a text.
func (o *dialogServices) finds(text string) {
	b, _ := json.Marshal(object{"results": []any{object{"id": "kb-1", "title": "Notes", "source": "kb/notes", "text": text}}}) // it is JSON
	o.search.answers(string(b))
}

// TestRandomConversationsWithServicesBeside holds random conversations with what has other models and services take part: the semantic cache, summaries, rules for tools,
// guardrails, documents that are found, second opinions, requests that are answered later or come twice at once, and sessions; in every format and through both shapes. Each of
// those gets what it may see, the client what was said and what it is to get of it, and pays for the sum of all calls. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestRandomConversationsWithServicesBeside(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 6))
			p := newExtrasPair(t, r)
			for range 6 {
				p.newExtrasDialog(t, r).holdWithExtras(t)
			}
			p.askMeanings(t, r)
			for _, s := range p.sides {
				s.g.AssertSound(t)
			}
		})
	}
}

// newExtrasDialog is a conversation with more of what a request may ask for.
func (p *dialogPair) newExtrasDialog(t *testing.T, r *rand.Rand) *dialog {
	t.Helper()
	v := p.newDialog(r)
	v.header = slices.DeleteFunc(v.header, func(h string) bool { return strings.HasPrefix(h, "x-bardo-session-id") })
	v.class = pick(r, "", "", "", "confidential", "private")
	if v.class == "private" && !p.extras.private[v.model] {
		v.class = "confidential"
	}
	if v.class != "" {
		v.header = append(v.header, "x-bardo-security-class: "+v.class)
	}
	if v.verifies = r.IntN(6) == 0; v.verifies {
		v.header = append(v.header, "x-bardo-verify: true")
	}
	v.long = r.IntN(2) == 0
	for _, c := range v.clients {
		c.joins = true // the guardrail knows words by their texts
	}
	if r.IntN(3) == 0 {
		v.session(t)
	}
	return v
}

// session has the conversation belong to a session, which may have some of the tools.
func (v *dialog) session(t *testing.T) {
	t.Helper()
	asked := object{"golem_id": "g7", "budget_usd": 500}
	if v.r.IntN(2) == 0 {
		names := []any{}
		for _, o := range v.tools {
			if v.r.IntN(4) > 0 {
				names = append(names, o.name)
			}
		}
		if len(names) <= 100 {
			v.only, asked["tools"] = names, names
		}
	}
	body, _ := json.Marshal(asked) // it is JSON
	for i, s := range v.sides {
		l := &sessionLab{Gateway: s.g}
		v.sessions[i] = l.create(t, s.keys[v.key], string(body))
	}
}
