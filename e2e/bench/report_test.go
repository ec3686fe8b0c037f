package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// took is a measurement of 100 requests in a second, of which half took that long, and each that much CPU.
func took(p50, envoyCPU, goCPU time.Duration) measurement {
	return measurement{Requests: 100, Seconds: 1, P50: p50, P99: 2 * p50, EnvoyCPU: 100 * envoyCPU, GoCPU: 100 * goCPU}
}

// Names of ways.
const (
	anonymous   = "gateway"
	keyed       = "gateway, key"
	anonymousTo = "gateway, backed"
	keyedTo     = "gateway, backed, key"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

func TestAResultIsComparedWithinItsRound(t *testing.T) {
	c := testCase{size: 1_000, conns: 1}
	s := newSeries()
	for round, slow := range []time.Duration{ms, 5 * ms, 2 * ms} { // the machine is slower at times, for all alike
		s.add(c.name(), direct, round, took(slow, 0, 0))
		s.add(c.name(), plain, round, took(2*slow, 50*us, 0))
		s.add(c.name(), anonymous, round, took(4*slow, 100*us, 75*us))
	}
	got := s.results([]testCase{c})
	if len(got) != 3 || got[0].Subject != direct || got[1].Subject != plain || got[2].Subject != anonymous {
		t.Fatalf("got %+v", got)
	}
	g := got[2]
	if g.AddedRatio != 3 || g.AddedP50 != 6*ms || g.P50 != 8*ms {
		t.Errorf("added %s, ratio %v, p50 %s", g.AddedP50, g.AddedRatio, g.P50)
	}
	if g.Requests != 300 || g.PerSecond != 100 || g.EnvoyCPU != 100*us || g.GoCPU != 75*us || g.CPURatio != 3.5 {
		t.Errorf("got %+v", g)
	}
}

func TestTokensShareTheProcessorTimeOfTheirStream(t *testing.T) {
	c := testCase{size: 1_000, conns: 100, stream: true, paced: true}
	s := newSeries()
	s.add(c.name(), direct, 0, took(ms, 0, 0))
	s.add(c.name(), plain, 0, took(ms, ms, 0))
	s.add(c.name(), anonymousTo, 0, took(ms, 2*ms, 800*us))
	g := s.results([]testCase{c})[2]
	if g.EnvoyTokenCPU != 50*us || g.GoTokenCPU != 20*us || g.CPURatio != 2.8 || g.AddedRatio != 0 {
		t.Errorf("got %+v", g)
	}
}

func TestAimsAreMetOrNot(t *testing.T) {
	r := report{Results: []result{
		{Case: "json/1kB/c1", Subject: plain, AddedRatio: 1},
		{Case: "json/1kB/c1", Subject: anonymous, AddedRatio: 2.9},
		{Case: "json/50kB/c1", Subject: keyed, AddedRatio: 4.4},
		{Case: "paced/1kB/c500", Subject: plain, AddedFirst50: 10 * ms},
		{Case: "paced/1kB/c500", Subject: anonymousTo, AddedFirst50: 29 * ms},
	}}
	r.Startup = startup{FirstReady: 1100 * ms, Ready: 300 * ms, Go: 20 * ms, IdleGoMB: 40}
	want := map[string]bool{
		"cold start to ready": false, "the Go program's part of it": true, "idle memory of the Go program": true,
		"added p50 at 1 kB, gateway": true, "added p50 at 50 kB, gateway, key": false,
		"first token p50 with 500 streams, over plain Envoy's, gateway, backed": true,
	}
	aims := judge(&r)
	if len(aims) != len(want) {
		t.Errorf("got %+v", aims)
	}
	for _, a := range aims {
		if met, known := want[a.What]; !known || met != a.Met {
			t.Errorf("%s: met %v at %s", a.What, a.Met, a)
		}
	}
}

func TestTheTablesAreMarkdown(t *testing.T) {
	r := report{
		Results: []result{{Case: "json/1kB/c1", Subject: direct, Conns: 1}, {Case: "paced/1kB/c100", Subject: keyedTo, Conns: 100}},
		Memory:  []memory{{When: "idle", Gateways: []gatewayMemory{{"gateway", 0, megabytes{41.4, 20.1}}, {"module", 12, megabytes{9, 3}}}}},
		Idle:    []idleMemory{{Way: keyed, Streams: 2000, EnvoyKB: 30.2, ProgramKB: 21}},
	}
	var b strings.Builder
	if err := r.markdown(&b); err != nil {
		t.Fatal(err)
	}
	columns := 0
	for line := range strings.SplitSeq(b.String(), "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		if n := strings.Count(line, "|"); columns != 0 && n != columns {
			t.Errorf("%d columns after %d: %s", n-1, columns-1, line)
		} else {
			columns = n
		}
	}
	for _, want := range []string{"| 1kB, 1 concurrent | direct |", "| 1kB, 100 concurrent | gateway, backed, key |", "| idle | 0 | 0 | 41 (20) | 12 | 9 (3) |", "| gateway, key | 30 | 21 | 0 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestTheMatrixIsWhatWasPromised(t *testing.T) {
	all := matrix(false, time.Second, regexp.MustCompile(""))
	if len(all) != 2*3*3+2 {
		t.Errorf("%d cases", len(all))
	}
	seen := map[string]bool{}
	for _, c := range all {
		seen[c.name()] = true
	}
	for _, name := range []string{"json/1kB/c1", "json/50kB/c16", "json/1MB/c64", "stream/1MB/c64", "paced/1kB/c100", "paced/1kB/c500"} {
		if !seen[name] {
			t.Errorf("no case %s", name)
		}
	}
	if some := matrix(true, time.Second, regexp.MustCompile("^paced")); len(some) != 1 || !some[0].paced {
		t.Errorf("got %+v", some)
	}
}
