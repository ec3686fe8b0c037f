package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// markdown writes the tables.
func (r *report) markdown(w io.Writer) error {
	var b bytes.Buffer
	m := r.Machine
	fmt.Fprintf(&b, "Measured %s on %d × %s, Linux %s, %s, Envoy %s, commit %s; %d rounds.\n",
		r.Started.Format("2006-01-02"), m.Cores, m.CPU, m.Kernel, m.Go, m.Envoy, m.Commit, r.Rounds)
	if r.Pinned > 0 {
		fmt.Fprintf(&b, "Envoy and the gateway were pinned to %d of the cores.\n", r.Pinned)
	}
	r.aimTable(&b)
	r.requestTable(&b, "Answers in one piece", "json/")
	r.requestTable(&b, "Streams of "+fmt.Sprint(burstTokens)+" tokens without a pause", "stream/")
	r.streamTable(&b)
	r.idleTable(&b)
	r.memoryTable(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (r *report) aimTable(b *bytes.Buffer) {
	heading(b, "Aims", "what", "aim", "this run", "met")
	for _, a := range r.Aims {
		met := "yes"
		if !a.Met {
			met = "**no**"
		}
		row(b, a.What, fmt.Sprintf("≤ %g %s", a.Limit, a.Unit), a.String(), met)
	}
}

func (r *report) requestTable(b *bytes.Buffer, title, prefix string) {
	results := r.of(prefix)
	if len(results) == 0 {
		return
	}
	heading(b, title, "case", "way", "requests/s", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms", "× plain", "CPU µs: Envoy", "Go", "× plain", "CPU hours a million", "failures")
	for _, x := range results {
		row(b, x.label(), x.Subject, fmt.Sprintf("%.0f", x.PerSecond), millis(x.P50), millis(x.P99), x.unlessDirect(millis(x.AddedP50)),
			x.unlessDirect(millis(x.AddedP99)), x.times(x.AddedRatio), micros(x.EnvoyCPU), micros(x.GoCPU), x.times(x.CPURatio), x.unlessDirect(fmt.Sprintf("%.2f", x.hoursPerMillion())), fmt.Sprint(x.Failures))
	}
}

func (r *report) streamTable(b *bytes.Buffer) {
	results := r.of("paced/")
	if len(results) == 0 {
		return
	}
	heading(b, fmt.Sprintf("Concurrent streams of %d tokens, one every %s", pacedTokens, pacedGap),
		"case", "way", "tokens/s", "first token p50 ms", "p99 ms", "added p50 ms", "stream p50 ms", "CPU µs per token: Envoy", "Go", "× plain", "failures")
	for _, x := range results {
		row(b, x.label(), x.Subject, fmt.Sprintf("%.0f", x.PerSecond*pacedTokens), millis(x.First50), millis(x.First99), x.unlessDirect(millis(x.AddedFirst50)),
			millis(x.P50), micros(x.EnvoyTokenCPU), micros(x.GoTokenCPU), x.times(x.CPURatio), fmt.Sprint(x.Failures))
	}
}

func (r *report) memoryTable(b *bytes.Buffer) {
	columns := []string{"when", "plain Envoy"}
	for _, s := range shapes {
		columns = append(columns, s.name+": Envoy", "Go")
	}
	heading(b, "Resident memory, MB (in parentheses without pages of files)", columns...)
	for _, m := range r.Memory {
		cells := []string{m.When, fmt.Sprintf("%.0f", m.PlainEnvoyMB)}
		for _, g := range m.Gateways {
			cells = append(cells, fmt.Sprintf("%.0f", g.EnvoyMB), g.GoMB.String())
		}
		row(b, cells...)
	}
}

func (r *report) idleTable(b *bytes.Buffer) {
	if len(r.Idle) == 0 {
		return
	}
	heading(b, fmt.Sprintf("Memory of %d silent streams", r.Idle[0].Streams), "way", "kB per stream: Envoy", "Go", "did not begin")
	for _, m := range r.Idle {
		row(b, m.Way, fmt.Sprintf("%.0f", m.EnvoyKB), fmt.Sprintf("%.0f", m.ProgramKB), fmt.Sprint(m.NotAnswered))
	}
}

// hoursPerMillion is the processor time of a million requests.
func (x *result) hoursPerMillion() float64 { return (x.EnvoyCPU + x.GoCPU).Hours() * 1e6 }

func (r *report) of(prefix string) []result {
	var out []result
	for _, x := range r.Results {
		if strings.HasPrefix(x.Case, prefix) {
			out = append(out, x)
		}
	}
	return out
}

// label is a case without its kind: "1kB, 64 concurrent".
func (x *result) label() string {
	return fmt.Sprintf("%s, %d concurrent", strings.Split(x.Case, "/")[1], x.Conns)
}

func (x *result) unlessDirect(s string) string {
	if x.Subject == direct {
		return ""
	}
	return s
}

// times is a ratio to plain Envoy, which has none to itself.
func (x *result) times(ratio float64) string {
	if x.Subject == direct || x.Subject == plain {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}

func micros(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(d)/float64(time.Microsecond))
}

func heading(b *bytes.Buffer, title string, columns ...string) {
	fmt.Fprintf(b, "\n### %s\n\n", title)
	row(b, columns...)
	b.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
}

func row(b *bytes.Buffer, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
