package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
)

// dialog is a random conversation, which is held through both shapes of the data path.
type dialog struct {
	*dialogPair
	r        *rand.Rand
	format   dialogFormat
	model    string
	key      int // which of the pair's
	header   []string
	tools    []dialogTool
	system   []dialogPart
	thinks   bool
	plants   bool // values that must not leave the gateway
	values   []string
	returned []string
	clients  [2]*dialogClient
	before   [2]*seenRequest // what the provider got for the turn before
	last     [2]gateway.Call
	turn     int
	record   map[string]any // of the last request

	class    string // of security
	verifies bool   // a second model is asked
	long     bool   // it has a past
	only     []any  // the tools that its session has; nil: all
	sessions [2]sessionReply
	spent    [2]int64 // of the session
}

// dialogSide is one of the two gateways.
type dialogSide struct {
	g         *gateway.Gateway
	keys      [2]string
	providers map[string]*fake.Server // by the model
	plan      *dialogPlan
	mu        sync.Mutex
	serial    map[string]int          // by the model
	said      []dialogSaid            // in the turn that goes on, by the model that was asked for
	others    []dialogSaid            // by others: second opinions, and the one that writes summaries
	stored    map[string][]parsedTurn // what was answered, by key and question
	raw       map[string][]dialogSaid // what the model said last, likewise
}

// dialogPair are two gateways of one configuration.
type dialogPair struct {
	config    string
	masks     bool
	sides     [2]*dialogSide
	hits      int           // answers from a cache
	coalesced int           // pairs of requests of which one waited for the other
	extras    *dialogExtras // nil: the layers alone
}

// dialogPlan is what the model does in a turn. What of it is possible depends on what it was sent.
type dialogPlan struct {
	words  string
	echoes int
	thinks bool
	calls  []int  // of tools, by their order
	made   string // a call of a tool that may not be offered
	model  string // that the turn is for
	rounds int    // searches before that, where tools are to be found
	again  bool   // the arguments are those of calls before
	forced string
	pieces int
	cut    int
	tools  []dialogTool
	found  []dialogTool // those that a search can find
	round  int
}

// dialogSaid is what the model said in one answer, and what the placeholders in it stand for.
type dialogSaid struct {
	b     fake.Behaviour
	owner map[string]int
	seen  seenRequest
	body  []byte
	model string
}

var dialogModels = map[string]fake.Config{
	"gpt-4.1":              {Dialect: fake.OpenAI},
	"claude-sonnet-4-5":    {Dialect: fake.Anthropic},
	"gemini-3-pro-preview": {Dialect: fake.Gemini},
	onlyInResponses:        {Dialect: fake.OpenAI, Only: []string{onlyInResponses}, Name: "openai"},
}

// answer is what the model says to a request.
func (s *dialogSide) answer(r *fake.Request) fake.Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, p := dialogSaid{body: r.Body, model: modelOf(r)}, s.plan
	s.serial[said.model]++
	serial := s.serial[said.model]
	said.seen, _ = seenIn(r) // it was read before
	var holders []string
	holders, said.owner = said.seen.holders()
	b := fake.Behaviour{Text: fmt.Sprintf("answer %d: %s", serial, p.words), Piece: p.pieces, Shape: fake.Shape{Cut: p.cut}, Usage: &fake.Usage{Input: 3000 + 5*serial, Output: 200 + 5*serial}}
	for i, h := range holders {
		if i < p.echoes {
			b.Text += " " + h + ","
		}
	}
	if p.thinks && said.seen.thinking || strings.Contains(r.Path, "gemini-3") { // which signs what it says

		b.Thoughts = []fake.Thought{{Text: "I think of " + strings.Join(holders[:min(len(holders), p.echoes)], " and ") + " again"}}
	}
	if len(b.Thoughts) > 0 && strings.HasSuffix(r.Path, "/messages") {
		p.rounds = 0 // signed thinking of two rounds in one turn is refused, and sent again without any
	}
	n := 0
	texts := func() string {
		if n++; len(holders) == 0 || p.again || n%2 == 0 {
			return fmt.Sprint("text ", n%3)
		}
		return "for " + holders[n%len(holders)]
	}
	b.ToolCalls = p.toolCalls(said.seen.tools, serial, texts)
	if p.round++; len(b.ToolCalls) > 0 && p.pieces%2 == 1 {
		b.Text = ""
	}
	said.b = b
	if said.model != p.model {
		s.others = append(s.others, said)
		return b
	}
	s.said = append(s.said, said)
	return b
}

// modelOf is the model that a request is for: Gemini's has it in the path.
func modelOf(r *fake.Request) string {
	if _, name, ok := strings.Cut(r.Path, "/models/"); ok {
		name, _, _ = strings.Cut(name, ":")
		return name
	}
	return r.Model
}

// toolCalls are the calls that a plan makes of the tools that are offered.
func (p *dialogPlan) toolCalls(offered []seenTool, serial int, texts func() string) (calls []fake.ToolCall) {
	at := func(name string) int {
		return slices.IndexFunc(offered, func(t seenTool) bool { return t.name == name })
	}
	own := func(name string) int {
		return slices.IndexFunc(p.tools, func(t dialogTool) bool { return t.name == name })
	}
	add := func(name string, args any) {
		b, _ := json.Marshal(args) // it is JSON
		text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(b))
		calls = append(calls, fake.ToolCall{ID: fmt.Sprintf("call_%d_%d", serial, len(calls)), Name: name, Args: text, Pieces: 1 + len(text)/max(p.pieces, 1)})
	}
	finds := len(p.found) > 0 && at("search_tools") >= 0 && own("search_tools") < 0
	if finds && p.round < p.rounds && p.forced == "" {
		if add("search_tools", object{"query": "read price " + p.words}); p.round == 1 {
			add("get_tool_schema", object{"name": p.found[0].name})
		}
		return calls
	}
	if i := at(p.forced); i >= 0 {
		add(p.forced, exampleOf(offered[i].schema, offered[i].schema, texts))
		return calls
	}
	for _, n := range p.calls {
		among := offered
		if finds {
			t := p.found[n%len(p.found)]
			if at(t.name) < 0 {
				add("execute_tool", object{"name": t.name, "arguments": exampleOf(t.schema, t.schema, texts)})
				continue
			}
			among = []seenTool{{name: t.name, schema: t.schema}}
		}
		if len(p.tools) == 0 || len(among) == 0 {
			break
		}
		if t := among[n%len(among)]; own(t.name) >= 0 {
			add(t.name, exampleOf(t.schema, t.schema, texts))
		}
	}
	if i := own(p.made); i >= 0 {
		add(p.made, exampleOf(p.tools[i].schema, p.tools[i].schema, texts))
	}
	return calls
}

// TestRandomConversationsThroughTheLayers holds random conversations in every format, with the layers on, through both shapes. Providers get what they take, no value
// that is to be masked, and no more than the client sent; what they got before stays as it was; clients get their own values, and answers to their own questions.
// BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestRandomConversationsThroughTheLayers(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			p := newDialogPair(t, r)
			for range 8 {
				p.newDialog(r).hold(t)
			}
			for _, s := range p.sides {
				s.g.AssertSound(t)
			}
		})
	}
}

// dialogConfigs are settings of the layers.
func dialogConfig(r *rand.Rand) (config string, masks bool) {
	pii := pick(r, "mask", "mask", "mask", "detect")
	return fmt.Sprintf(`
pipeline:
  default: %s
  hash: %s
  pii: {policy: %s, secret: same, patterns: {employee: {regexp: 'EMP-\d{6}', examples: [EMP-004711]}}}
  injection: {policy: %s, on_error: allow}
  tools: {mode: %s, meta: %s}
  compression: {mode: %s, recall: %s}
  governor: %s
models: {injection: "off", embedding: "off"}
`, pick(r, "minimal", "fast", "standard", "full", "full"), pick(r, "on", "all", "off"), pii, pick(r, "off", "quarantine"), pick(r, "auto", "auto", "on", "off"), pick(r, "auto", "on", "off"),
		pick(r, "on", "on", "off"), pick(r, "on", "off"), pick(r, "off", "on")), pii == "mask"
}

func newDialogPair(t *testing.T, r *rand.Rand) *dialogPair {
	t.Helper()
	p := &dialogPair{}
	p.config, p.masks = dialogConfig(r)
	for i := range p.sides {
		s := newDialogSide(t)
		s.run(t, i, gateway.Options{Config: quick + p.config}, s.row)
		p.sides[i] = s
	}
	return p
}

func newDialogSide(t *testing.T) *dialogSide {
	t.Helper()
	s := &dialogSide{providers: map[string]*fake.Server{}, serial: map[string]int{}, stored: map[string][]parsedTurn{}, raw: map[string][]dialogSaid{}}
	for _, model := range sortedKeys(dialogModels) {
		s.providers[model] = fake.Start(t, dialogModels[model])
		s.providers[model].Behave(fake.Behaviour{From: s.answer})
	}
	return s
}

// run starts the gateway of a side.
func (s *dialogSide) run(t *testing.T, i int, o gateway.Options, row func(model string) gateway.Provider) {
	t.Helper()
	o.DataPath = []string{"extproc", "module"}[i]
	for _, model := range sortedKeys(dialogModels) {
		o.Providers = append(o.Providers, row(model))
	}
	s.g = gateway.Run(t, o)
	for k := range s.keys {
		s.keys[k] = s.g.CreateKey(t, "--name", fmt.Sprintf("k%d", k), "--balance-usd", "1000").Key
	}
}

// row is the provider of a model in the configuration.
func (s *dialogSide) row(model string) gateway.Provider {
	if model == onlyInResponses {
		return gateway.Provider{ID: "openai", Fake: s.providers[model]}
	}
	d := string(dialogModels[model].Dialect)
	return gateway.Provider{ID: "own-" + d, Fake: s.providers[model], Format: d, Models: []gateway.Model{{ID: model}}}
}

func (p *dialogPair) newDialog(r *rand.Rand) *dialog {
	v := &dialog{dialogPair: p, r: r, format: pick(r, inChat, inResponses, inMessages, inGemini), model: pick(r, sortedKeys(dialogModels)...), key: r.IntN(2), plants: r.IntN(4) > 0, thinks: r.IntN(2) == 0}
	for i := range v.clients {
		v.clients[i] = &dialogClient{format: v.format}
	}
	if n := pick(r, 0, 1, 5, 13, 30, 60, 120, 200); n > 0 {
		v.tools = v.newTools(n)
	}
	for range r.IntN(4) {
		v.system = append(v.system, dialogPart{text: strings.Repeat(v.says()+"\n", 1+r.IntN(30)), flag: pick(r, "", "", "static", "volatile"), mark: v.marks() && r.IntN(6) == 0})
	}
	v.header = pick(r, nil, []string{"x-bardo-golem-id: g1"}, []string{"x-bardo-golem-id: g2", "x-bardo-tick-type: " + pick(r, "market_analysis", "risk_check")}, []string{"x-bardo-session-id: s" + fmt.Sprint(r.IntN(1000))})
	v.header = append(slices.Clip(v.header), pick(r, nil, nil, []string{"x-bardo-pipeline: " + pick(r, "minimal", "fast", "standard", "full")})...)
	return v
}

// String is enough of it to repeat it by hand.
func (v *dialog) String() string {
	return fmt.Sprintf("turn %d of %s to %s, headers %q, %d tools, thinks %v, plants %v", v.turn, v.format, v.model, v.header, len(v.tools), v.thinks, v.plants)
}

// hold has the conversation.
func (v *dialog) hold(t *testing.T) {
	t.Helper()
	turns := 2 + v.r.IntN(9)
	for v.turn = range turns {
		v.say()
		stream, choice := v.r.IntN(2) == 0, v.choice()
		body := v.body(choice)
		plan := v.newPlan(choice)
		var seen [2]outcome
		for i, s := range v.sides {
			seen[i] = v.ask(t, i, s.call(v, i, stream, body), stream, plan)
		}
		if d := seen[0].differences(seen[1]); len(d) > 0 {
			t.Errorf("%s\n%s", v, strings.Join(d, "\n"))
		}
		v.compareSent(t)
		if v.r.IntN(4) == 0 {
			v.repeat(t, stream, plan)
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", v, v.config)
		}
	}
}

// repeat sends the last request once more, with either key: what was stored is for its own key alone.
func (v *dialog) repeat(t *testing.T, stream bool, plan *dialogPlan) {
	t.Helper()
	clients, before, key := v.clients, v.before, v.key
	if !v.thinks && v.format != inResponses { // what is signed, and what has ids, is one key's
		v.key = v.r.IntN(2)
	}
	for i, s := range v.sides {
		call := v.last[i]
		call.Key = s.keys[v.key]
		v.clients[i], v.before[i] = &dialogClient{format: v.format}, nil
		v.ask(t, i, call, stream, plan)
	}
	v.compareSent(t)
	v.clients, v.before, v.key = clients, before, key
}

// call is the request of a side's client.
func (s *dialogSide) call(v *dialog, i int, stream bool, body func() object) gateway.Call {
	c := v.clients[i].call(v.model, stream, body(), v.header)
	c.Key = s.keys[v.key]
	return c
}

// say adds what the user says, or what the tools returned.
func (v *dialog) say() {
	r := v.r
	if n := len(v.clients[0].open); n > 0 {
		results := make([]dialogResult, n)
		for i := range results {
			results[i] = v.newResult()
		}
		order := v.clients[0].orderOfResults(r, n)
		for _, c := range v.clients {
			c.results(results, order)
		}
		return
	}
	parts := []dialogPart{{text: v.says()}}
	if v.extras != nil {
		parts[0].text += v.serviceWord()
	}
	for range r.IntN(3) {
		parts = append(parts, dialogPart{text: v.says(), picture: r.IntN(4) == 0, mark: v.marks() && r.IntN(10) == 0})
	}
	for _, c := range v.clients {
		c.user(parts)
	}
}

// marks reports whether the client may mark what a prompt cache is to hold: what it sends in the provider's own format comes there as it is.
func (v *dialog) marks() bool {
	return v.format == inMessages || v.format == inChat && v.model != "gpt-4.1"
}

// choice is the tool that the model has to call, or how many it may.
func (v *dialog) choice() string {
	if len(v.tools) == 0 || v.r.IntN(4) > 0 {
		return ""
	}
	if v.thinks && v.model == "claude-sonnet-4-5" {
		return pick(v.r, "auto", "none")
	}
	return pick(v.r, "auto", "none", "required", v.tools[v.r.IntN(len(v.tools))].name)
}

func (v *dialog) newPlan(choice string) *dialogPlan {
	r := v.r
	p := &dialogPlan{words: someWords(r, 1+r.IntN(30)), echoes: r.IntN(4), thinks: v.thinks, pieces: 1 + r.IntN(20), rounds: r.IntN(3), again: r.IntN(2) == 0, tools: v.tools, found: v.tools, model: v.model}
	if r.IntN(3) == 0 {
		p.cut = 1 + r.IntN(30)
	}
	if r.IntN(3) > 0 && choice != "none" {
		for range 1 + r.IntN(4) {
			p.calls = append(p.calls, r.IntN(6))
		}
	}
	if choice == "required" {
		p.calls = append(p.calls, 0)
	}
	if choice != "auto" && choice != "none" && choice != "required" {
		p.forced = choice
	}
	return p
}

// ask sends a request, reads the answer, and checks both.
func (v *dialog) ask(t *testing.T, i int, call gateway.Call, stream bool, plan *dialogPlan) outcome {
	t.Helper()
	s, c := v.sides[i], v.clients[i]
	mine := *plan
	s.mu.Lock()
	s.plan, s.said, s.others = &mine, nil, nil
	s.mu.Unlock()
	v.last[i] = call
	got := s.g.Do(t, call)
	s.g.Key = call.Key // whose record it is
	o := outcomeOf(t, s.g, got)
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%s: %d %v %s\nof %s\nsent %s", v, got.Status, got.Err, got.Body, call.Body, v.lastSent(i))
	}
	v.record = o.Record
	h := c.read(t, got, stream)
	o.Body = "" // its pieces depend on what came together, and signatures on placeholders
	v.checkAnswer(t, i, call, got, h)
	v.checkSent(t, i, call, got)
	return o
}

func (v *dialog) lastSent(i int) string {
	r, _ := v.sides[i].providers[v.model].Last()
	return string(r.Body)
}
