package classifyeval

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/classify"
	"bardo.money/gateway/policy/intent"
)

// Group is how some prompts are judged.
type Group struct {
	Name                    string
	N                       int
	English                 int // prompts that are plainly English: the others are not judged
	Domain, Intent          int // right, of English ones
	SureDomain, RightDomain int // sure, and right of these
	SureIntent, RightIntent int
	LevelError              float64 // distances of the difficulty, of English ones
	Rules, With             int     // prompts whose quality is that of their difficulty or one class beside it: by the rules, and with the classifier
	Changed, Better, Worse  int     // prompts whose quality the classifier changes, towards their difficulty or away from it
}

// Report is what the classifier makes of a half of the labelled prompts.
type Report struct {
	Half   string
	Groups []Group
	Took   time.Duration // median of a vector
}

// Evaluate judges the half that nothing was tuned on.
func Evaluate(ctx context.Context, root string) (r Report, err error) {
	h, err := Open(root)
	if err != nil {
		return r, err
	}
	defer func() { _ = h.Close() }() // it was only read
	set, err := classify.Prototypes()
	if err != nil {
		return r, err
	}
	prompts, err := Test(root)
	if err != nil {
		return r, err
	}
	began := time.Now()
	rows, err := embed(ctx, h.Embedder(), prompts)
	if err != nil {
		return r, err
	}
	if tag := h.Embedder().Tag(); tag != set.Tag {
		return r, fmt.Errorf("the prototypes are for the model %s, and %s is installed: make prototypes", set.Tag, tag)
	}
	r.Took = time.Since(began) / time.Duration(len(rows))
	r.Half = "test"
	r.Groups = []Group{
		measure("English", set, rows, func(p *Prompt) bool { return p.Language == "en" }),
		measure("other languages", set, rows, func(p *Prompt) bool { return p.Language != "en" }),
	}
	return r, nil
}

func measure(name string, set *classify.Set, rows []row, which func(*Prompt) bool) Group {
	g := Group{Name: name}
	for i := range rows {
		if p := &rows[i]; which(&p.Prompt) {
			g.N++
			g.add(set, p)
		}
	}
	return g
}

// wanted is the quality of a difficulty.
var wanted = []policy.Quality{policy.QualityLow, policy.QualityLow, policy.QualityMedium, policy.QualityMaximum}

func (g *Group) add(set *classify.Set, p *row) {
	facts := intent.Facts{Model: "auto", Text: p.Text, InputTokens: int64(len(p.Text) / 4)}
	quality := func() policy.Quality {
		return intent.Build(&policy.Hints{}, &facts, &policy.Principal{}, &intent.Rules{}).Quality
	}
	want := wanted[int(p.Level)]
	rules := quality()
	with := rules
	if classify.English(p.Text) {
		r, _ := set.Classify(p.vector)
		facts.Reading = &r
		with = quality()
		g.English++
		g.judge(&r, &p.Label)
	}
	before, after := distance(rules, want), distance(with, want)
	g.Rules += count(before <= 1)
	g.With += count(after <= 1)
	g.Changed += count(with != rules)
	g.Better += count(after < before)
	g.Worse += count(after > before)
}

func (g *Group) judge(r *intent.Reading, l *classify.Label) {
	g.LevelError += math.Abs(r.Level - l.Level)
	g.Domain += count(r.Domain == l.Domain)
	g.Intent += count(r.Intent == l.Intent)
	if r.SureOfDomain() {
		g.SureDomain++
		g.RightDomain += count(r.Domain == l.Domain)
	}
	if r.SureOfIntent() {
		g.SureIntent++
		g.RightIntent += count(r.Intent == l.Intent)
	}
}

func distance(a, b policy.Quality) int { return max(int(a)-int(b), int(b)-int(a)) }

func count(is bool) int { return int(one(is)) }

// Write prints the report.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%s half, %s for a vector\n\n", r.Half, r.Took.Round(100*time.Microsecond))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROMPTS\tN\tJUDGED\tDOMAIN\tSURE\tINTENT\tSURE\tLEVEL OFF BY\tQUALITY BY RULES\tWITH IT\tCHANGED\tBETTER\tWORSE")
	for i := range r.Groups {
		g := &r.Groups[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s of %d\t%s\t%s of %d\t%s\t%s\t%s\t%d\t%d\t%d\n", g.Name, g.N, g.English, percent(g.Domain, g.English),
			percent(g.RightDomain, g.SureDomain), g.SureDomain, percent(g.Intent, g.English), percent(g.RightIntent, g.SureIntent), g.SureIntent, g.levelError(),
			percent(g.Rules, g.N), percent(g.With, g.N), g.Changed, g.Better, g.Worse)
	}
	return t.Flush()
}

// fewest is the number of prompts below which a share of them says nothing.
const fewest = 10

// percent is a share, rounded down.
func percent(n, of int) string {
	if of < fewest {
		return "-"
	}
	return fmt.Sprintf("%d %%", 100*n/of)
}

// levelError is the mean distance of the difficulty.
func (g *Group) levelError() string {
	if g.English < fewest {
		return "-"
	}
	return fmt.Sprintf("%.2f", g.LevelError/float64(g.English))
}

// Row is the group's line in docs/routing.md.
func (g *Group) Row() string {
	return fmt.Sprintf("| %s | %d | %d | %s (%s of %d) | %s (%s of %d) | %s | %s, %s | %d, %d |", g.Name, g.N, g.English, percent(g.Domain, g.English),
		percent(g.RightDomain, g.SureDomain), g.SureDomain, percent(g.Intent, g.English), percent(g.RightIntent, g.SureIntent), g.SureIntent, g.levelError(),
		percent(g.Rules, g.N), percent(g.With, g.N), g.Better, g.Worse)
}
