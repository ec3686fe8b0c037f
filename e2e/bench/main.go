// Command bench measures what the gateway costs. It runs three ways to the same stand-in provider side by side: straight
// to it, through a plain Envoy with the settings of the gateway's own listener, and through the gateway. What it reports
// of the gateway is therefore a comparison within one run, on one machine, and not a promise of milliseconds.
//
// It knows the gateway by its commands, files and HTTP surface alone, and Envoy by its admin socket. With -anatomy it also serves ext_proc
// itself, to tell what Envoy's part of a request costs from what the gateway's Go program does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"bardo.money/gateway/e2e/bench/empty"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // the signal handler ends with the process
	}
}

// options are the flags.
type options struct {
	quick      bool
	rounds     int
	window     time.Duration
	only       string
	json, md   string
	profileDir string
	cores      int
	anatomy    bool
	beside     string
	models     string
	config     string
	serveEmpty string
	cluster    string
}

func flags() options {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a small matrix, about a minute")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds over the whole matrix (default 7, 3 with -quick)")
	flag.DurationVar(&o.window, "window", 0, "measured time of one case in one round (default 400ms)")
	flag.StringVar(&o.only, "only", "", "measure only the cases that match this regular expression, e.g. json/1kB")
	flag.StringVar(&o.json, "json", "", "write everything measured to this file")
	flag.StringVar(&o.md, "md", "", "write the tables to this file, as Markdown")
	flag.StringVar(&o.profileDir, "profile", "", "measure nothing: write CPU and heap profiles of the Go program for each case to this directory")
	flag.IntVar(&o.cores, "cores", 0, "pin Envoy and the gateway to so many cores with taskset, and the rest to the others (default: not pinned)")
	flag.BoolVar(&o.anatomy, "anatomy", false, "measure the gateway's Envoy without one part after the other, instead of the matrix")
	flag.StringVar(&o.beside, "beside", "", "measure this bardo, of another checkout, in the same run")
	flag.StringVar(&o.models, "models", "", "measure streams and memory while the local models of this directory are busy, beside a gateway without models, instead of the matrix")
	flag.StringVar(&o.config, "config", "", "more of the gateways' configuration, as YAML at the top level, e.g. 'pipeline: {pii: {policy: \"off\"}}'")
	flag.StringVar(&o.serveEmpty, "serve-empty", "", "for -anatomy: serve ext_proc on this socket, with nothing behind it")
	flag.StringVar(&o.cluster, "cluster", "", "for -serve-empty: where its requests go")
	flag.Parse()
	if o.window == 0 {
		o.window = 400 * time.Millisecond
	}
	if o.rounds == 0 {
		o.rounds = 7
		if o.quick {
			o.rounds = 3
		}
	}
	return o
}

func run(ctx context.Context) error {
	o := flags()
	if o.serveEmpty != "" {
		return empty.Serve(ctx, o.serveEmpty, o.cluster)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.beside != "" {
		addBeside(o.beside)
	}
	if o.models != "" {
		shapes = modelShapes(o.models)
	}
	for i := range shapes {
		shapes[i].config += o.config + "\n"
	}
	cases := matrix(o.quick, o.window, only)
	l, err := setUp(ctx, cores(o.cores))
	if err != nil {
		return err
	}
	defer l.tearDown()
	if o.profileDir != "" {
		return l.profile(ctx, cases, o.profileDir)
	}
	if o.anatomy {
		return l.anatomy(ctx, o.rounds, o.window, only, os.Stdout)
	}
	if o.models != "" {
		return l.models(ctx, os.Stdout)
	}
	r := report{Machine: describe(ctx, l.envoyBin), Started: time.Now().UTC(), Rounds: o.rounds, Pinned: o.cores}
	if r.Startup, err = measureStartup(ctx); err != nil {
		return err
	}
	r.Memory = append(r.Memory, l.memory("idle"))
	if o.only == "" {
		n := idleStreams
		if o.quick {
			n = idleQuick
		}
		if r.Idle, err = l.measureIdle(ctx, n); err != nil {
			return err
		}
		r.Memory = append(r.Memory, l.memory(fmt.Sprintf("after %d idle streams", n)))
	}
	if r.Results, err = l.measure(ctx, cases, o.rounds, &r); err != nil {
		return err
	}
	r.Aims = judge(&r)
	return r.write(o)
}

// measure goes over the matrix round by round, so that what happens to the machine meanwhile happens to all alike. Paced
// streams are slow, and are part of every fourth round.
func (l *lab) measure(ctx context.Context, cases []testCase, rounds int, r *report) ([]result, error) {
	all := newSeries()
	for round := range rounds {
		began := time.Now()
		for _, c := range cases {
			if c.paced && round%4 != 0 {
				continue
			}
			if err := l.measureCase(ctx, c, round, all); err != nil {
				return nil, err
			}
			if round == 0 && c.paced {
				r.Memory = append(r.Memory, l.memory(c.name()))
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, time.Since(began).Round(time.Second))
	}
	r.Memory = append(r.Memory, l.memory("at the end"))
	return all.results(cases), nil
}

// errShort is a window in which fewer requests came to their ends than leastEnds for each connection: what was done for those that ended behind it would
// count as done for them.
var errShort = errors.New("the window is too short for the requests")

const leastEnds = 4

// longestWindow is how long one case of one round may be measured where its requests take longer than the window that was asked for.
const longestWindow = 30 * time.Second

// measureCase runs every subject once; each round begins with another one.
func (l *lab) measureCase(ctx context.Context, c testCase, round int, all *series) error {
	return l.measureWays(ctx, c, l.subjects(c), round, all)
}

func (l *lab) measureWays(ctx context.Context, c testCase, subjects []subject, round int, all *series) error {
	for i := range subjects {
		s := subjects[(i+round)%len(subjects)]
		m, err := l.load(ctx, c, s, c.window)
		for window := 4 * c.window; errors.Is(err, errShort) && window <= longestWindow; window *= 4 {
			m, err = l.load(ctx, c, s, window)
		}
		if errors.Is(err, errShort) && m.Requests > 0 {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name(), s.name, err)
		}
		all.add(c.name(), s.name, round, m)
	}
	return nil
}

func (r *report) write(o options) error {
	if err := r.markdown(os.Stdout); err != nil {
		return err
	}
	if o.md != "" {
		f, err := os.Create(o.md)
		if err != nil {
			return err
		}
		if err := r.markdown(f); err != nil {
			_ = f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(b, '\n'), 0o600)
}
