package dryrun

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// explanationJSON is the documented JSON of an explanation.
type explanationJSON struct {
	Order     []candidateJSON   `json:"order"`
	Refused   []refusalJSON     `json:"refused"`
	Profile   profileJSON       `json:"profile"`
	Pipeline  string            `json:"pipeline"`
	Policies  map[string]string `json:"policies,omitempty"`
	Reasoning reasoningJSON     `json:"reasoning"`
	Inferred  *Inferred         `json:"inferred,omitempty"`
	Privacy   *request.Privacy  `json:"privacy,omitempty"`
	Floor     *Floor            `json:"floor,omitempty"`
	Hedge     *Hedge            `json:"hedge,omitempty"`
	Warning   string            `json:"warning,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// reasoningJSON is the reasoning of the answer.
type reasoningJSON struct {
	Depth       string `json:"depth"` // default: the provider's default
	Visible     bool   `json:"visible"`
	Interleaved bool   `json:"interleaved"`
}

func newReasoningJSON(r profile.Reasoning) reasoningJSON {
	return reasoningJSON{Depth: cmp.Or(r.Depth.String(), "default"), Visible: r.Visible, Interleaved: r.Interleaved}
}

type candidateJSON struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	Features []policy.Feature  `json:"features"`
	Degraded []string          `json:"degraded"`
	Cost     policy.Pico       `json:"estimated_cost_usd"` // provider cost
	Score    *float64          `json:"score"`              // null: not scored
	Terms    *termsJSON        `json:"terms,omitempty"`    // of the score, for a model that the gateway chooses
}

type refusalJSON struct {
	Provider policy.ProviderID `json:"provider"`
	Model    string            `json:"model"`
	Reason   string            `json:"reason"`
}

// profileJSON is a profile, with the names that hints have.
type profileJSON struct {
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"top_p,omitempty"`
	TopK             *int     `json:"top_k,omitempty"`
	MinP             *float64 `json:"min_p,omitempty"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64 `json:"presence_penalty,omitempty"`
	Effort           string   `json:"reasoning_effort,omitempty"`
	VisibleThinking  *bool    `json:"visible_thinking,omitempty"`
	Schema           string   `json:"response_schema,omitempty"` // its name
	MaxTokens        int      `json:"max_tokens,omitempty"`
	Stop             []string `json:"stop_sequences,omitempty"`
	PromptCacheKey   string   `json:"prompt_cache_key,omitempty"`
	CacheControl     *bool    `json:"cache_control,omitempty"`
	WebSearch        *bool    `json:"web_search,omitempty"`
	TEE              *bool    `json:"tee_mode,omitempty"`
	Predicted        bool     `json:"predicted_output,omitempty"` // whether there is one
	Seed             *int64   `json:"seed,omitempty"`
}

func newProfileJSON(p *policy.Profile) profileJSON {
	out := profileJSON{
		Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP,
		FrequencyPenalty: p.FrequencyPenalty, PresencePenalty: p.PresencePenalty,
		Effort: p.Effort.String(), VisibleThinking: p.VisibleThinking, Schema: p.SchemaName, MaxTokens: p.MaxTokens, Stop: p.Stop,
		PromptCacheKey: p.PromptCacheKey, CacheControl: p.CacheControl, WebSearch: p.WebSearch, TEE: p.TEE,
		Predicted: p.PredictedOutput != "", Seed: p.Seed,
	}
	if out.Schema == "" && len(p.Schema) > 0 {
		out.Schema = "unnamed"
	}
	return out
}

// JSON returns the explanation as documented, indented.
func (e *Result) JSON() []byte {
	out := explanationJSON{
		Order: make([]candidateJSON, 0, len(e.Order)), Refused: make([]refusalJSON, 0, len(e.Refused)),
		Profile: newProfileJSON(&e.Profile), Pipeline: e.Pipeline, Policies: e.Policies, Reasoning: newReasoningJSON(e.Reasoning), Inferred: e.Inferred, Privacy: e.Privacy, Floor: e.Floor, Hedge: e.Hedge, Warning: e.Warning, Error: e.Error,
	}
	for i := range e.Order {
		p := &e.Order[i]
		row := candidateJSON{Provider: p.Provider, Model: p.Model, Features: append([]policy.Feature{}, p.Features...), Degraded: append([]string{}, p.Degraded...), Cost: policy.Pico(p.ProviderCost)}
		if p.Score > 0 {
			row.Score = new(round4(p.Score))
			if e.Inferred != nil {
				row.Terms = newTermsJSON(p.Terms)
			}
		}
		out.Order = append(out.Order, row)
	}
	for _, no := range e.Refused {
		out.Refused = append(out.Refused, refusalJSON(no))
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return []byte("{}") // nothing in it can fail
	}
	return append(b, '\n')
}

// Text returns the explanation as tables.
func (e *Result) Text() string {
	var b strings.Builder
	rows := make([][]string, len(e.Order))
	for i := range e.Order {
		rows[i] = e.Order[i].cells(i + 1)
	}
	if len(rows) > 0 {
		writeTable(&b, []string{"RANK", "PROVIDER", "MODEL", "UPSTREAM", "HEALTH", "COST USD", "PROVIDER USD", "LACKS", "WHY"}, rows)
		fmt.Fprintf(&b, "\ncost of %d input and up to %d output tokens\n", e.Input, e.Output)
	}
	if f := e.Floor; f != nil {
		fmt.Fprintf(&b, "free models alone, instead of %s: %s\n", printable(f.Asked), f.Reason)
	}
	b.WriteString(e.scored())
	fmt.Fprintf(&b, "pipeline %s; reasoning %s; profile %s\n", e.Pipeline, e.reasoning(), e.profile())
	b.WriteString(e.privacy())
	if e.Hedge != nil {
		b.WriteString(e.Hedge.text(&e.Order[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Policies)) {
		fmt.Fprintf(&b, "%s: %s\n", name, e.Policies[name])
	}
	if e.Warning != "" {
		fmt.Fprintf(&b, "warning: %s\n", printable(e.Warning))
	}
	if len(e.Why) > 0 {
		fmt.Fprintf(&b, "%s\n", printable(strings.Join(e.Why, "; ")))
	}
	if len(e.Refused) > 0 {
		rows = make([][]string, len(e.Refused))
		for i, no := range e.Refused {
			rows[i] = []string{string(no.Provider), no.Model, no.Reason}
		}
		b.WriteByte('\n')
		writeTable(&b, []string{"NOT ASKED", "MODEL", "WHY"}, rows)
	}
	return b.String()
}

// privacy returns the line of a request with a privacy tier.
func (e *Result) privacy() string {
	p := e.Privacy
	switch {
	case p == nil:
		return ""
	case p.InForce == "":
		return fmt.Sprintf("privacy: tier %s%s; no constraint in force\n", p.Tier, of(p.TaskClass))
	}
	by := of(p.TaskClass)
	if p.Default {
		by += " by default"
	}
	words := map[bool]string{true: "allowed", false: "not allowed"}
	line := fmt.Sprintf("privacy: tier %s%s; tools %s; web search %s; uploads %s", p.InForce, by, words[p.Tools], words[p.WebSearch], words[p.Uploads])
	if p.Schema {
		line += "; the answer needs a schema"
	}
	if p.Violated != "" {
		line += "; the request breaks " + string(p.Violated)
	}
	return line + "\n"
}

// of names a task class behind its tier.
func of(class string) string {
	if class == "" {
		return ""
	}
	return " of task class " + class
}

// termsJSON are the terms of a score.
type termsJSON struct {
	Cost     policy.Term `json:"cost"`
	Quality  policy.Term `json:"quality"`
	Latency  policy.Term `json:"latency"`
	Features policy.Term `json:"features"`
	Expected policy.Pico `json:"expected_cost_usd,omitempty"` // the cost that the term Cost is based on, for a model that the gateway chooses
}

func newTermsJSON(t *policy.Terms) *termsJSON {
	if t == nil {
		return nil
	}
	short := func(t policy.Term) policy.Term {
		return policy.Term{Value: round4(t.Value), Weight: round4(t.Weight)}
	}
	return &termsJSON{short(t.Cost), short(t.Quality), short(t.Latency), short(t.Features), t.Expected}
}

func round4(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// scored returns the inferred task, and the terms of each candidate's score.
func (e *Result) scored() string {
	if e.Inferred == nil {
		return ""
	}
	var b strings.Builder
	i := e.Inferred
	fmt.Fprintf(&b, "\ntask %s; difficulty %.2f; needs quality %s; about %d output tokens\n", i.Task, i.Difficulty, i.Quality, i.Expected)
	points := make([]string, len(i.Points))
	for k, p := range i.Points {
		points[k] = fmt.Sprintf("%s %+.2f", p.What, p.Worth)
	}
	fmt.Fprintf(&b, "difficulty: %s\n", strings.Join(points, ", "))
	b.WriteString(i.Classifier.line())
	if i.Stays != "" {
		fmt.Fprintf(&b, "the conversation is at %s\n", printable(i.Stays))
	}
	var rows [][]string
	for k := range e.Order {
		p := &e.Order[k]
		if p.Terms == nil {
			continue
		}
		row := []string{strconv.Itoa(k + 1), string(p.Model), fmt.Sprintf("%.3f", p.Score)}
		for _, t := range [...]policy.Term{p.Terms.Cost, p.Terms.Quality, p.Terms.Latency, p.Terms.Features} {
			row = append(row, fmt.Sprintf("%.2f x %.2f", t.Value, t.Weight))
		}
		rows = append(rows, append(row, p.Terms.Expected.String()))
	}
	if rows != nil {
		writeTable(&b, []string{"RANK", "MODEL", "SCORE", "COST", "QUALITY", "LATENCY", "FEATURES", "EXPECTED USD"}, rows)
	}
	b.WriteByte('\n')
	return b.String()
}

// line returns what the classifier says, as text; "" if it was not asked.
func (c *Classified) line() string {
	switch {
	case c == nil:
		return ""
	case c.Reading == nil:
		return "the classifier says nothing: " + c.Silent + "\n"
	}
	sure := func(is bool) string {
		if is {
			return ""
		}
		return " (not sure)"
	}
	text := fmt.Sprintf("classifier: domain %s%s, intent %s%s, difficulty %.1f of 3", c.Domain, sure(c.SureOfDomain()), c.Intent, sure(c.SureOfIntent()), c.Level)
	if c.Injection != nil {
		text += fmt.Sprintf(", injection %.2f%s", *c.Injection, map[bool]string{true: " (unsafe)"}[c.Unsafe])
	}
	if c.Changed != "" {
		text += "; it finds the task " + c.Changed
	}
	return text + "\n"
}

// reasoning returns the reasoning in one phrase.
func (e *Result) reasoning() string {
	r := newReasoningJSON(e.Reasoning)
	if r.Visible {
		r.Depth += ", visible"
	}
	if r.Interleaved {
		r.Depth += ", interleaved"
	}
	return r.Depth
}

// profile returns the profile in one line.
func (e *Result) profile() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(newProfileJSON(&e.Profile)); err != nil || b.String() == "{}\n" {
		return "of the provider"
	}
	return strings.TrimSpace(b.String())
}

func (p *Candidate) cells(rank int) []string {
	cost := policy.Micro(p.Cost).String()
	switch {
	case p.Direct:
		cost = passthrough.CostDirect
	case !p.PriceKnown:
		cost += " (price not known)"
	}
	return []string{
		strconv.Itoa(rank), string(p.Provider), string(p.Model), p.Upstream, p.State, cost, policy.Pico(p.ProviderCost).String(),
		strings.Join(p.Degraded, ","), p.Why,
	}
}

func writeTable(w io.Writer, heads []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heads}, rows...) {
		line := make([]string, len(row))
		for i, cell := range row {
			line[i] = printable(cell)
		}
		_, _ = io.WriteString(t, strings.Join(line, "\t")+"\n") // to memory
	}
	_ = t.Flush()
}

// printable quotes text that has control characters: some of it comes from clients.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	if s == "" {
		return "-"
	}
	return s
}
