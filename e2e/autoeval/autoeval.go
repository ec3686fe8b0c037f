// Package autoeval measures how well the model "auto" is chosen: labelled prompts go through the gateway's own reading of a request, its
// inference of what is needed and its scorer, over the embedded catalog. Nobody is asked, nothing is spent, and nothing is random.
package autoeval

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/google"
	openaiprovider "bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

//go:embed testdata/*.txt
var files embed.FS

// The halves of the labelled set. The features were tuned on the one, and the figures are of the other.
const (
	Tuning = "tuning"
	Test   = "test"
)

// Levels are the difficulties, least first.
var Levels = []string{"trivial", "easy", "medium", "hard"}

// Prompt is a labelled request.
type Prompt struct {
	Kind, Level, Language string
	Answer                int64    // tokens that a good answer takes
	Turns                 []string // of the user, the last one newest
	Tools, MaxTokens, Pad int
	Schema                bool
}

// Easy tells whether a small model answers it as well as a large one.
func (p *Prompt) Easy() bool { return p.Level == "trivial" || p.Level == "easy" }

// Hard tells whether only strong models answer it well.
func (p *Prompt) Hard() bool { return p.Level == "hard" }

// Prompts reads a half of the labelled set.
func Prompts(half string) ([]Prompt, error) {
	text, err := files.ReadFile("testdata/" + half + ".txt")
	if err != nil {
		return nil, err
	}
	var out []Prompt
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%.60s: %w", line, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func parse(line string) (p Prompt, err error) {
	head, text, ok := strings.Cut(line, " | ")
	fields := strings.Fields(head)
	if !ok || len(fields) < 4 {
		return p, fmt.Errorf("expected: kind level language tokens options | prompt")
	}
	p.Kind, p.Level, p.Language = fields[0], fields[1], fields[2]
	if p.Answer, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
		return p, err
	}
	for _, option := range fields[4:] {
		name, value, _ := strings.Cut(option, "=")
		to := map[string]*int{"tools": &p.Tools, "max": &p.MaxTokens, "pad": &p.Pad}[name]
		switch {
		case name == "schema":
			p.Schema = true
		case to == nil:
			return p, fmt.Errorf("no such option: %s", name)
		default:
			if *to, err = strconv.Atoi(value); err != nil {
				return p, err
			}
		}
	}
	p.Turns = strings.Split(strings.ReplaceAll(text, `\n`, "\n"), " >>> ")
	return p, nil
}

// filler is what documents are made longer with.
const filler = "The parcel left the depot in the morning and was signed for the same day at the front desk. "

// Body is the request as a client of OpenAI's format sends it.
func (p *Prompt) Body() []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := map[string]any{"model": "auto"}
	var messages []message
	for i, turn := range p.Turns {
		if i > 0 {
			messages = append(messages, message{"assistant", "Done."})
		}
		messages = append(messages, message{"user", turn})
	}
	if p.Pad > 0 { // about four bytes are a token
		messages[len(messages)-1].Content += "\n" + strings.Repeat(filler, p.Pad*4/len(filler)+1)
	}
	body["messages"] = messages
	if p.MaxTokens > 0 {
		body["max_tokens"] = p.MaxTokens
	}
	if p.Schema {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "out", "schema": map[string]any{"type": "object"}}}
	}
	var tools []any
	for i := range p.Tools {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": fmt.Sprintf("tool_%d", i), "parameters": map[string]any{"type": "object"}}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	out, _ := json.Marshal(body) // it can be
	return out
}

// Setup is what a user has configured.
type Setup struct {
	Name      string
	Config    string
	Strongest string // the dearest current flagship among its models: what "always strong" means
	Cheapest  string // what "always cheap" means
}

// Setups are the two that the figures are given for.
var Setups = []Setup{
	{
		Name:      "keys of Anthropic, OpenAI and Google",
		Config:    "providers:\n  anthropic: {api_key: x}\n  openai: {api_key: x}\n  google: {api_key: x}\n",
		Strongest: "gpt-5.6-sol", Cheapest: "gpt-5-nano",
	},
	{
		Name:      "a key of OpenRouter alone",
		Config:    "providers:\n  openrouter: {api_key: x}\n",
		Strongest: "gpt-5.6-sol", Cheapest: "gpt-5-nano",
	},
}

// adapters are those of the setups.
var adapters = []provider.Described{anthropic.Adapter{}, openaiprovider.Adapter{}, google.Adapter{}, openrouter.Adapter{}}

// Resolver is the setup's.
func (s *Setup) Resolver() (*resolve.Resolver, error) {
	var kinds []kind.Kind
	for _, a := range adapters {
		kinds = append(kinds, a.Kind())
	}
	cfg, problems := config.Parse("config.yaml", []byte(s.Config), func(string) (string, bool) { return "", false }, kinds...)
	if config.Failed(problems) {
		return nil, fmt.Errorf("%s: %v", s.Name, problems)
	}
	var enabled []kind.Provider
	for _, p := range cfg.Enabled() {
		for _, a := range adapters {
			if a.Name() == p.Kind {
				p.Traits = a.Kind().Traits
			}
		}
		enabled = append(enabled, p.Provider)
	}
	return resolve.New(catalog.New(catalog.Embedded()).WithKinds(kinds...), enabled), nil
}

// Outcome is what was chosen for a prompt.
type Outcome struct {
	Prompt *Prompt
	Task   intent.Task
	To     policy.Resolution
	Price  float64 // of the model, to the strongest's
	// What the labelled answer costs there, and at the models that are always strong and always cheap.
	Cost, Strong, Cheap policy.Pico
	Candidates          int
	Providers           int
}

// OnCheap tells whether the model's price is at most a tenth of the strongest's.
func (o *Outcome) OnCheap() bool { return o.Price <= 0.1 }

// OnStrong tells whether it is at least a fifth.
func (o *Outcome) OnStrong() bool { return o.Price >= 0.2 }

// price is the usual mean of a model's prices: three input tokens to one of output.
func price(to *policy.Resolution) float64 {
	return (3*float64(to.Prices.Input) + float64(to.Prices.Output)) / 4
}

// Judge is a classifier: what it says of the text of a request; nil: nothing.
type Judge func(text string) *intent.Reading

// Run chooses for each prompt. judge may be nil.
func Run(s *Setup, prompts []Prompt, judge Judge) ([]Outcome, error) {
	r, err := s.Resolver()
	if err != nil {
		return nil, err
	}
	strong, err := r.Resolve(s.Strongest, "")
	if err != nil {
		return nil, err
	}
	cheap, err := r.Resolve(s.Cheapest, "")
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(prompts))
	for i := range prompts {
		o := &out[i]
		if err := o.choose(r, &prompts[i], judge); err != nil {
			return nil, fmt.Errorf("%.60s: %w", prompts[i].Turns[0], err)
		}
		o.Price = price(&o.To) / price(&strong[0])
		input := int64(len(prompts[i].Body())) / 4
		cost := func(to *policy.Resolution) policy.Pico { return to.Prices.Cost(input, 0, 0, 0, prompts[i].Answer) }
		o.Cost, o.Strong, o.Cheap = cost(&o.To), cost(&strong[0]), cost(&cheap[0])
	}
	return out, nil
}

func (o *Outcome) choose(r *resolve.Resolver, p *Prompt, judge Judge) error {
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", p.Body())
	if err != nil {
		return err
	}
	f := hint.Facts(req, int64(req.MaxTokens))
	if judge != nil {
		f.Reading = judge(f.Text)
	}
	built := intent.Build(&policy.Hints{}, &f, &policy.Principal{}, &intent.Rules{})
	d := r.Decide(&built.Intent)
	if d.Err != nil {
		return d.Err
	}
	o.Prompt, o.Task, o.To, o.Candidates = p, built.Task, d.Order[0], len(d.Order)
	seen := map[policy.ProviderID]bool{}
	for i := range d.Order {
		seen[d.Order[i].Provider] = true
	}
	o.Providers = len(seen)
	return nil
}

// Figures are the shares and costs of some outcomes. A share of nothing is not a number.
type Figures struct {
	N                   int
	EasyOnCheap         float64 // of the easy ones, on models of at most a tenth of the strongest's price
	HardOnStrong        float64 // of the hard ones, on models of at least a fifth of it
	Cost, Strong, Cheap policy.Pico
}

// Saved is how much cheaper than always the strongest it is, 0 to 1.
func (f *Figures) Saved() float64 { return 1 - float64(f.Cost)/float64(f.Strong) }

// Sum puts outcomes together.
func Sum(of []Outcome, which func(*Outcome) bool) Figures {
	var f Figures
	var easy, cheap, hard, strong float64
	for i := range of {
		o := &of[i]
		if !which(o) {
			continue
		}
		f.N++
		f.Cost, f.Strong, f.Cheap = f.Cost.Plus(o.Cost), f.Strong.Plus(o.Strong), f.Cheap.Plus(o.Cheap)
		if o.Prompt.Easy() {
			easy++
			cheap += one(o.OnCheap())
		}
		if o.Prompt.Hard() {
			hard++
			strong += one(o.OnStrong())
		}
	}
	f.EasyOnCheap, f.HardOnStrong = ratio(cheap, easy), ratio(strong, hard)
	return f
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func ratio(n, of float64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return n / of
}
