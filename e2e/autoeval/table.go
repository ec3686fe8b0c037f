package autoeval

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Measured is a setup with its outcomes.
type Measured struct {
	Setup *Setup
	Of    []Outcome
}

// Measure runs a half of the labelled set over every setup. judge may be nil.
func Measure(half string, judge Judge) ([]Measured, error) {
	prompts, err := Prompts(half)
	if err != nil {
		return nil, err
	}
	out := make([]Measured, len(Setups))
	for i := range Setups {
		of, err := Run(&Setups[i], prompts, judge)
		if err != nil {
			return nil, err
		}
		out[i] = Measured{&Setups[i], of}
	}
	return out, nil
}

// All are the figures of the whole half.
func (m *Measured) All() Figures { return Sum(m.Of, func(*Outcome) bool { return true }) }

// Row is the setup's line in docs/routing.md.
func (m *Measured) Row() string {
	f := m.All()
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %.1f times |", m.Setup.Name, f.N, percent(f.EasyOnCheap), percent(f.HardOnStrong), percent(f.Saved()),
		float64(f.Cost)/float64(f.Cheap))
}

// Claim is what README.md says of it.
func (m *Measured) Claim() string {
	f := m.All()
	return fmt.Sprintf("with %s, %s of the easy prompts go to a model of at most a tenth of the strongest's price, %s of the hard ones to one of at "+
		"least a fifth, and the whole costs %s less than always the strongest (`make eval-auto`)",
		m.Setup.Name, percent(f.EasyOnCheap), percent(f.HardOnStrong), percent(f.Saved()))
}

func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", math.Floor(share*100+1e-9)) // never more than there is
}

// Write prints the table: the whole half, then by kind of task, by difficulty and by language.
func Write(w io.Writer, half string, measured []Measured) error {
	for i := range measured {
		m := &measured[i]
		fmt.Fprintf(w, "%s half, %s (always strong: %s, always cheap: %s)\n\n", half, m.Setup.Name, m.Setup.Strongest, m.Setup.Cheapest)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "BY\t\tPROMPTS\tEASY ON CHEAP\tHARD ON STRONG\tCOST USD\tALWAYS STRONG\tALWAYS CHEAP\tSAVED")
		m.line(t, "all", "", func(*Outcome) bool { return true })
		m.lines(t, "kind", func(p *Prompt) string { return p.Kind })
		m.lines(t, "difficulty", func(p *Prompt) string { return p.Level })
		m.lines(t, "language", func(p *Prompt) string { return p.Language })
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

func (m *Measured) lines(w io.Writer, by string, of func(*Prompt) string) {
	var names []string
	for i := range m.Of {
		if name := of(m.Of[i].Prompt); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		m.line(w, by, name, func(o *Outcome) bool { return of(o.Prompt) == name })
	}
}

func (m *Measured) line(w io.Writer, by, name string, which func(*Outcome) bool) {
	f := Sum(m.Of, which)
	fmt.Fprintln(w, strings.Join([]string{
		by, name, fmt.Sprint(f.N), percent(f.EasyOnCheap), percent(f.HardOnStrong), f.Cost.String(), f.Strong.String(), f.Cheap.String(), percent(f.Saved()),
	}, "\t"))
}
