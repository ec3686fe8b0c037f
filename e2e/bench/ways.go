package main

import (
	"os"
	"path/filepath"

	"bardo.money/gateway/e2e/gateway"
)

// The ways without a gateway.
const (
	direct = "direct"
	plain  = "plain Envoy"
)

// shape is how the gateway stands beside its Envoy. Each shape is a gateway of its own, with the same ways through it.
type shape struct {
	name    string // as its ways are called
	config  string // what its configuration has besides what all have
	inEnvoy bool   // needs libbardo.so
	program string // the bardo that is started; "": this tree's
}

// shapes are all shapes that are measured. -beside adds those of another program.
var shapes = []shape{{name: "gateway"}, {name: "module", config: "data_path: module\n", inEnvoy: true}} // ext_proc, and the core in Envoy's process

// addBeside has another program measured in the same run, in each shape that was built with it.
func addBeside(program string) {
	_, err := os.Stat(filepath.Join(filepath.Dir(program), "libbardo.so"))
	for _, s := range shapes {
		if err != nil && s.inEnvoy {
			continue
		}
		shapes = append(shapes, shape{name: "other " + s.name, config: s.config, program: program})
	}
}

// way is one way through a gateway.
type way struct {
	shape  string
	key    bool // with a prepaid key
	backed bool // another provider could take over; of streams alone
}

func (w way) name() string {
	name := w.shape
	if w.backed {
		name += ", backed"
	}
	if w.key {
		name += ", key"
	}
	return name
}

// ways are the ways through a gateway of this shape, in the order of the tables.
func (s shape) ways() []way {
	return []way{{s.name, false, false}, {s.name, true, false}, {s.name, false, true}, {s.name, true, true}}
}

// allWays are the ways through all gateways.
func allWays() (out []way) {
	for _, s := range shapes {
		out = append(out, s.ways()...)
	}
	return out
}

// wayNames are the names of all ways, in the order of the tables.
func wayNames() []string {
	out := []string{direct, plain}
	for _, w := range allWays() {
		out = append(out, w.name())
	}
	return out
}

// findWay is the way of a name; ok is false for one without a gateway.
func findWay(name string) (w way, ok bool) {
	for _, w := range allWays() {
		if w.name() == name {
			return w, true
		}
	}
	return way{}, false
}

// installed is a running gateway.
type installed struct {
	shape

	gateway        *gateway.Gateway
	addr, key      string
	envoy, program process
}

// subject is one way to the provider, ready to be loaded.
type subject struct {
	name      string
	addr      string
	request   []byte
	processes []process  // whose CPU time the requests take
	gateway   *installed // nil for none
}

// subjects are the ways that c is measured on.
func (l *lab) subjects(c testCase) []subject {
	upstream, path, one, two := l.burst, "/v1/chat/completions", modelOne, modelTwo
	switch {
	case c.held:
		upstream, path, one, two = l.held, heldPrefix+path, modelHeld, modelHeld
	case c.paced:
		upstream, path, one, two = l.paced, pacedPrefix+path, modelPacedOne, modelPacedTwo
	}
	out := []subject{
		{direct, upstream, request(path, one, "", c), nil, nil},
		{plain, l.plainAddr, request(path, one, "", c), []process{l.plainEnvoy}, nil},
	}
	for _, g := range l.gateways {
		for _, w := range g.ways() {
			switch {
			case !w.backed:
				out = append(out, g.subject(w, one, c))
			case c.stream && !c.held:
				out = append(out, g.subject(w, two, c))
			}
		}
	}
	return out
}

// subject is a way through the gateway.
func (g *installed) subject(w way, model string, c testCase) subject {
	key := ""
	if w.key {
		key = g.key
	}
	return subject{w.name(), g.addr, request("/v1/chat/completions", model, key, c), []process{g.envoy, g.program}, g}
}
