package main

import (
	"fmt"
	"slices"
	"time"
)

// report is everything that one run found, and what is written as JSON. Durations are nanoseconds.
type report struct {
	Machine machine
	Started time.Time
	Rounds  int
	Startup startup
	Pinned  int // cores; 0: not pinned
	Memory  []memory
	Idle    []idleMemory
	Results []result
	Aims    []aim
}

// memory is what the processes held at one moment.
type memory struct {
	When         string
	PlainEnvoyMB float64
	Gateways     []gatewayMemory
}

type gatewayMemory struct {
	Shape   string
	EnvoyMB float64
	GoMB    megabytes
}

// result is one subject in one case: medians of the rounds, and processor time over all of them.
type result struct {
	Case, Subject string
	Conns         int
	Requests      int // over all rounds
	Failures      int
	PerSecond     float64
	P50, P99      time.Duration
	First50       time.Duration
	First99       time.Duration
	AddedP50      time.Duration // over the direct way, in the same round
	AddedP99      time.Duration
	AddedFirst50  time.Duration
	TailRatio     float64       // P99 to plain Envoy's, of the same round
	AddedRatio    float64       // AddedP50 to plain Envoy's, of the same round; 0 where plain Envoy added nothing
	EnvoyCPU      time.Duration // per request
	GoCPU         time.Duration
	CPURatio      float64       // both together, to plain Envoy's
	EnvoyTokenCPU time.Duration // per token of a stream, the request's share included
	GoTokenCPU    time.Duration
}

// series are all measurements: case, subject, round.
type series struct {
	rounds map[string]map[string]map[int]measurement
}

func newSeries() *series { return &series{map[string]map[string]map[int]measurement{}} }

func (s *series) add(c, subject string, round int, m measurement) {
	if s.rounds[c] == nil {
		s.rounds[c] = map[string]map[int]measurement{}
	}
	if s.rounds[c][subject] == nil {
		s.rounds[c][subject] = map[int]measurement{}
	}
	s.rounds[c][subject][round] = m
}

// results are in the order of cases and, within one, of the subjects.
func (s *series) results(cases []testCase) []result {
	var out []result
	for _, c := range cases {
		byName := s.rounds[c.name()]
		for _, name := range wayNames() {
			if byName[name] != nil {
				out = append(out, summarizeRounds(c, name, byName))
			}
		}
	}
	return out
}

func summarizeRounds(c testCase, name string, all map[string]map[int]measurement) result {
	r := result{Case: c.name(), Subject: name, Conns: c.conns}
	var envoy, program time.Duration
	var p50, p99, first50, first99, added50, added99, addedFirst []time.Duration
	var rates, ratios, tails []float64
	for round, m := range all[name] {
		base, reference := all[direct][round], all[plain][round]
		r.Requests += m.Requests
		r.Failures += m.Failures
		envoy, program = envoy+m.EnvoyCPU, program+m.GoCPU
		rates = append(rates, float64(m.Requests)/m.Seconds)
		p50, p99 = append(p50, m.P50), append(p99, m.P99)
		first50, first99 = append(first50, m.First50), append(first99, m.First99)
		added50, added99 = append(added50, m.P50-base.P50), append(added99, m.P99-base.P99)
		addedFirst = append(addedFirst, m.First50-base.First50)
		if of := reference.P50 - base.P50; of > 0 {
			ratios = append(ratios, float64(m.P50-base.P50)/float64(of))
		}
		if reference.P99 > 0 {
			tails = append(tails, float64(m.P99)/float64(reference.P99))
		}
	}
	r.PerSecond, r.AddedRatio, r.TailRatio = median(rates), median(ratios), median(tails)
	r.P50, r.P99, r.First50, r.First99 = median(p50), median(p99), median(first50), median(first99)
	r.AddedP50, r.AddedP99, r.AddedFirst50 = median(added50), median(added99), median(addedFirst)
	r.EnvoyCPU, r.GoCPU = each(envoy, r.Requests), each(program, r.Requests)
	if c.stream {
		r.EnvoyTokenCPU, r.GoTokenCPU = each(r.EnvoyCPU, c.tokens()), each(r.GoCPU, c.tokens())
	}
	var plainCPU time.Duration
	var plainRequests int
	for _, m := range all[plain] {
		plainCPU, plainRequests = plainCPU+m.EnvoyCPU, plainRequests+m.Requests
	}
	if plainCPU > 0 {
		r.CPURatio = float64(r.EnvoyCPU+r.GoCPU) / float64(each(plainCPU, plainRequests))
	}
	return r
}

func each(total time.Duration, n int) time.Duration {
	if n == 0 {
		return 0
	}
	return total / time.Duration(n)
}

// median is the middle value, or the lower one of two; 0 of nothing.
func median[T time.Duration | float64](v []T) T {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[(len(v)-1)/2]
}

// aim is one thing the gateway promises, and how this run kept it.
type aim struct {
	What  string
	Limit float64
	Value float64
	Unit  string
	Met   bool
}

// limitsOf are the most that a way may cost, as ratios to plain Envoy in the same run. 0: no limit.
type limitsOf struct{ added1kB, added50kB, added1MB, cpuRequest, cpuToken, tail1kB float64 }

// promised are the limits of each shape, without and with a key.
var promised = map[string][2]limitsOf{
	"gateway": {{3.6, 3.8, 4, 4.6, 2.9, 0}, {4.1, 4.3, 4, 5.3, 3.1, 0}},
	"module":  {{1.4, 2.2, 4, 2.1, 1.5, 2}, {1.7, 2.4, 4, 2.5, 1.6, 2}},
}

// limits are those of a way.
func (w way) limits() limitsOf {
	if w.key {
		return promised[w.shape][1]
	}
	return promised[w.shape][0]
}

const (
	maxFirstMS = 20
	maxReadyMS = 1000
	maxGoMS    = 50
	maxIdleMB  = 80
)

// judge holds a run against the promises; what was not measured is not judged.
func judge(r *report) []aim {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	out := []aim{
		promise("cold start to ready", "ms", maxReadyMS, max(ms(r.Startup.Ready), ms(r.Startup.FirstReady))),
		promise("the Go program's part of it", "ms", maxGoMS, ms(r.Startup.Go)),
		promise("idle memory of the Go program", "MB", maxIdleMB, r.Startup.IdleGoMB),
	}
	for i := range r.Results {
		x := &r.Results[i]
		w, ok := findWay(x.Subject)
		if !ok {
			continue
		}
		out = append(out, judgeWay(x, w.limits())...)
		if x.Case == "paced/1kB/c500" {
			out = append(out, promise("first token p50 with 500 streams, over plain Envoy's, "+x.Subject, "ms", maxFirstMS,
				ms(x.AddedFirst50-r.find(x.Case, plain).AddedFirst50)))
		}
	}
	return out
}

// judgeWay holds one way in one case against its limits.
func judgeWay(x *result, most limitsOf) (out []aim) {
	add := func(what string, limit, value float64) {
		if limit > 0 {
			out = append(out, promise(what+", "+x.Subject, "×", limit, value))
		}
	}
	switch x.Case {
	case "json/1kB/c1":
		add("added p50 at 1 kB", most.added1kB, x.AddedRatio)
		add("p99 at 1 kB", most.tail1kB, x.TailRatio)
	case "json/50kB/c1":
		add("added p50 at 50 kB", most.added50kB, x.AddedRatio)
	case "json/1MB/c1":
		add("added p50 at 1 MB", most.added1MB, x.AddedRatio)
	case "json/1kB/c64":
		add("CPU per request", most.cpuRequest, x.CPURatio)
	case "paced/1kB/c100":
		add("CPU per token", most.cpuToken, x.CPURatio)
	}
	return out
}

func promise(what, unit string, limit, value float64) aim {
	return aim{What: what, Unit: unit, Limit: limit, Value: value, Met: value <= limit}
}

// find returns a zero result for what was not measured.
func (r *report) find(c, subject string) result {
	for i := range r.Results {
		if r.Results[i].Case == c && r.Results[i].Subject == subject {
			return r.Results[i]
		}
	}
	return result{}
}

func (a aim) String() string {
	if a.Unit == "×" {
		return fmt.Sprintf("%.2f ×", a.Value)
	}
	return fmt.Sprintf("%.1f %s", a.Value, a.Unit)
}
