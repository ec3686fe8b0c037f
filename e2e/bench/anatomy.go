package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The anatomy is where a request's time goes: Envoys with the gateway's own configuration, each without one part of it, side by side. All but the
// first are served by a data path that only hands bodies back (package empty): what the gateway's own costs is a row of its own. Each shape has a table.

// specimen is one Envoy of the anatomy.
type specimen struct {
	name    string
	shape   *installed     // the gateway whose configuration it has
	without []func(*parts) // what is taken out of the gateway's configuration
	gateway bool           // it is served by the gateway's own data path
	way     subject
}

// parts are the pieces of an Envoy's configuration.
type parts struct {
	bootstrap, listener, routes object
	clusters                    []any
}

// specimens are the rows of a shape's table.
func specimens(of *installed) []*specimen {
	one := func(name string, f func(*parts)) *specimen {
		return &specimen{name: "without " + name, shape: of, without: []func(*parts){f}}
	}
	out := []*specimen{{name: "the gateway", shape: of, gateway: true}, {name: "the same Envoy, an empty data path", shape: of}}
	if of.inEnvoy {
		out = append(out, one("the module's filter of attempts", withoutFilter(filterModule)))
	} else {
		out = append(out,
			one("the script on answers", withoutFilter("envoy.filters.http.lua")),
			one("attributes", withoutAttributes),
			one("metadata of the request in messages", withoutForwarding),
		)
	}
	out = append(out,
		one("the removal of internal headers", withoutFilter("envoy.filters.http.header_mutation")),
		one("the order of clusters", withoutOrder),
		one("retries", withoutRoute("retry_policy")),
		one("the hash policy", withoutRoute("hash_policy")),
		one("counts of attempts", withoutCounts),
		one("replies of Envoy's own", withoutManager("local_reply_config")),
		one("statistics by status", withoutStatusStatistics),
	)
	all := &specimen{name: "without all of these", shape: of}
	for _, s := range out[2:] {
		all.without = append(all.without, s.without...)
	}
	return append(out, all)
}

const filterModule = "envoy.filters.http.dynamic_modules"

// anatomy measures the specimens of each shape round by round and writes the tables.
func (l *lab) anatomy(ctx context.Context, rounds int, window time.Duration, only *regexp.Regexp, w io.Writer) error {
	for _, g := range l.gateways {
		if !only.MatchString(g.name) {
			continue
		}
		if err := l.anatomyOf(ctx, g, rounds, window, w); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

func (l *lab) anatomyOf(ctx context.Context, g *installed, rounds int, window time.Duration, w io.Writer) error {
	p, err := l.parts(ctx, g)
	if err != nil {
		return err
	}
	server, err := l.startEmpty(ctx, g, p.burstCluster())
	if err != nil {
		return err
	}
	all := specimens(g)
	for i, s := range all {
		if err := l.startSpecimen(ctx, s, i, server); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	cases := []testCase{
		{size: 1_000, conns: 1, ramp: settle, window: window},
		{size: 1_000, conns: 64, ramp: settle, window: window},
	}
	ways, measured := l.ways(cases[0], all), newSeries()
	for round := range rounds {
		for _, c := range cases {
			if err := l.measureWays(ctx, c, ways, round, measured); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", g.name, round+1, rounds)
	}
	return anatomyTable(w, g.name, cases, ways, measured)
}

// ways are the specimens, with the direct way and plain Envoy before them.
func (l *lab) ways(c testCase, all []*specimen) []subject {
	out := l.subjects(c)[:2]
	for _, s := range all {
		out = append(out, s.way)
	}
	return out
}

func anatomyTable(w io.Writer, shape string, cases []testCase, ways []subject, measured *series) error {
	var b bytes.Buffer
	heading(&b, "Where the time goes: "+shape, "Envoy's configuration", "added p50 µs, 1 connection", "CPU µs, 64 connections: Envoy", "Go", "together, × plain")
	for _, s := range ways[1:] {
		one := summarizeRounds(cases[0], s.name, measured.rounds[cases[0].name()])
		many := summarizeRounds(cases[1], s.name, measured.rounds[cases[1].name()])
		row(&b, s.name, micros(one.AddedP50), micros(many.EnvoyCPU), micros(many.GoCPU), many.times(many.CPURatio))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// startSpecimen starts one Envoy. That of a gateway in its Envoy's process is the gateway's own: its library needs the program that started it.
func (l *lab) startSpecimen(ctx context.Context, s *specimen, n int, empty emptyServer) error {
	if s.gateway && s.shape.inEnvoy {
		s.way = s.shape.subject(way{shape: s.shape.name}, modelOne, testCase{size: 1_000})
		s.way.name = s.name
		return nil
	}
	p, err := l.parts(ctx, s.shape)
	if err != nil {
		return err
	}
	var environment []string
	served := []process{s.shape.program}
	if !s.gateway {
		p.serveFrom(empty)
		served, environment = empty.processes, empty.environment
	}
	for _, take := range s.without {
		take(p)
	}
	name := fmt.Sprintf("%s%d", s.shape.name, n)
	admin := filepath.Join(l.dir, name+".sock")
	config, err := p.static(admin)
	if err != nil {
		return err
	}
	started, addr, err := l.startEnvoy(ctx, name, admin, config, environment...)
	if err != nil {
		return err
	}
	s.way = subject{s.name, addr, request("/v1/chat/completions", modelOne, "", testCase{size: 1_000}), append([]process{started}, served...), nil}
	return nil
}

// parts reads a gateway's own configuration.
func (l *lab) parts(ctx context.Context, g *installed) (*parts, error) {
	raw, err := l.gatewayDump(ctx, g)
	if err != nil {
		return nil, err
	}
	return readParts(raw)
}

func readParts(raw []byte) (*parts, error) {
	var d dump
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("config_dump: %w", err)
	}
	p := &parts{}
	for _, c := range d.Configs {
		if c.Bootstrap != nil {
			p.bootstrap = c.Bootstrap
		}
		for _, x := range c.Listeners {
			if x.Name == listenerName {
				p.listener = x.Active.Listener
			}
		}
		for _, x := range c.Routes {
			if x.Config["name"] == routesName {
				p.routes = x.Config
			}
		}
		for _, x := range c.Clusters {
			p.clusters = append(p.clusters, x.Cluster)
		}
	}
	if p.bootstrap == nil || p.listener == nil || p.routes == nil || len(p.clusters) == 0 {
		return nil, errors.New("config_dump: no bootstrap, client listener, routes or clusters")
	}
	return p, nil
}

// static is a bootstrap with these parts and without a control plane.
func (p *parts) static(admin string) ([]byte, error) {
	manager := p.manager()
	delete(manager, "rds")
	manager["route_config"] = p.routes
	resources := append([]any{p.listener, p.routes}, p.clusters...)
	for _, r := range resources {
		if r, ok := r.(object); ok {
			delete(r, "@type")
		}
	}
	delete(p.bootstrap, "dynamic_resources")
	p.bootstrap["admin"] = object{"address": object{"pipe": object{"path": admin}}}
	p.bootstrap["static_resources"] = object{"listeners": []any{p.listener}, "clusters": p.clusters}
	return json.Marshal(p.bootstrap)
}

func (p *parts) manager() object {
	m, _ := at(p.listener, "filter_chains", 0, "filters", 0, "typed_config").(object)
	return m
}

// extProc is the ext_proc filter of the client listener.
func (p *parts) extProc() object {
	c, _ := at(p.manager(), "http_filters", 0, "typed_config").(object)
	return c
}

// route is the one that requests take.
func (p *parts) route() object {
	r, _ := at(p.routes, "virtual_hosts", 0, "routes", 0, "route").(object)
	return r
}

// burstCluster is the cluster of the provider that answers immediately: its name begins with the provider's.
func (p *parts) burstCluster() string {
	for _, c := range p.clusters {
		name, _ := at(c, "name").(string)
		if provider, _, _ := strings.Cut(name, "."); provider == burstProvider && state.ProviderOf(name) == policy.ProviderID(name) {
			return name
		}
	}
	return ""
}

// serveFrom leads the ext_proc filters to another server, or tells another library where its requests go.
func (p *parts) serveFrom(empty emptyServer) {
	for _, c := range p.clusters {
		if at(c, "name") == state.ClusterExtProc {
			endpoint, _ := at(c, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint").(object)
			endpoint["address"] = object{"pipe": object{"path": empty.socket}}
		}
	}
	if config, ok := at(p.bootstrap, "bootstrap_extensions", 0, "typed_config", "extension_config").(object); ok {
		config["value"] = empty.cluster
	}
}

// withoutFilter removes a filter from the chains of the provider clusters.
func withoutFilter(name string) func(*parts) {
	return func(p *parts) {
		for _, c := range p.clusters {
			protocols, _ := at(c, "typed_extension_protocol_options").(object)
			for _, o := range protocols {
				o, _ := o.(object)
				filters, _ := o["http_filters"].([]any)
				var kept []any
				for _, f := range filters {
					if at(f, "name") != name {
						kept = append(kept, f)
					}
				}
				if len(filters) > 0 {
					o["http_filters"] = kept
				}
			}
		}
	}
}

func withoutAttributes(p *parts) {
	delete(p.extProc(), "request_attributes")
	delete(p.extProc(), "response_attributes")
}

func withoutForwarding(p *parts) {
	options, _ := p.extProc()["metadata_options"].(object)
	delete(options, "forwarding_namespaces")
}

func withoutOrder(p *parts) {
	delete(p.route(), "inline_cluster_specifier_plugin")
	p.route()["cluster"] = p.burstCluster()
}

func withoutRoute(member string) func(*parts) {
	return func(p *parts) { delete(p.route(), member) }
}

func withoutManager(member string) func(*parts) {
	return func(p *parts) { delete(p.manager(), member) }
}

func withoutCounts(p *parts) {
	host, _ := at(p.routes, "virtual_hosts", 0).(object)
	delete(host, "include_request_attempt_count")
	delete(host, "include_attempt_count_in_response")
}

func withoutStatusStatistics(p *parts) {
	router, _ := at(p.manager(), "http_filters", 1, "typed_config").(object)
	router["dynamic_stats"] = false
}

// emptyServer is a data path that only hands bodies back: a process that serves ext_proc, or a library for Envoy's.
type emptyServer struct {
	cluster     string
	socket      string
	processes   []process
	environment []string
}

// startEmpty runs this program again as the empty server, or builds the empty library.
func (l *lab) startEmpty(ctx context.Context, g *installed, cluster string) (emptyServer, error) {
	if g.inEnvoy {
		return l.buildEmpty(ctx, cluster)
	}
	self, err := os.Executable()
	if err != nil {
		return emptyServer{}, err
	}
	socket := filepath.Join(l.dir, "empty.sock")
	c := exec.Command(self, "-serve-empty", socket, "-cluster", cluster) //nolint:noctx // ended by tearDown
	c.Stderr = os.Stderr
	if err := l.start(c); err != nil {
		return emptyServer{}, err
	}
	return emptyServer{socket: socket, cluster: cluster, processes: []process{{pid: c.Process.Pid}}}, nil
}

func (l *lab) buildEmpty(ctx context.Context, cluster string) (emptyServer, error) {
	root, err := proctest.Root()
	if err != nil {
		return emptyServer{}, err
	}
	dir := filepath.Join(l.dir, "emptymodule")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildmode=c-shared", "-o", filepath.Join(dir, envoy.ModuleFile), "./e2e/bench/emptymodule")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return emptyServer{}, fmt.Errorf("building the empty library: %w\n%s", err, out)
	}
	return emptyServer{cluster: cluster, environment: []string{envoy.ModuleVariable + "=" + dir}}, nil
}

// startWithin bounds how long an Envoy may take.
const startWithin = 30 * time.Second

// startEnvoy starts an Envoy with the gateway's arguments and another configuration, and returns the address of its client listener.
func (l *lab) startEnvoy(ctx context.Context, name, admin string, config []byte, environment ...string) (_ process, addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	file := filepath.Join(l.dir, name+".json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return process{}, "", err
	}
	args, err := plainArguments(l.gateways[0].envoy.pid, file)
	if err != nil {
		return process{}, "", err
	}
	program, args := l.cores.command(l.envoyBin, args)
	c := exec.Command(program, args...) //nolint:noctx // ended by tearDown
	c.Env = append(os.Environ(), environment...)
	said, err := os.Create(filepath.Join(l.dir, name+".log"))
	if err != nil {
		return process{}, "", err
	}
	defer func() { _ = said.Close() }()
	c.Stdout, c.Stderr = said, said
	if err := l.start(c); err != nil {
		return process{}, "", err
	}
	a := envoy.NewAdmin(admin)
	if err := a.Ready(ctx); err != nil {
		why, _ := os.ReadFile(said.Name()) // the better half of the message
		return process{}, "", fmt.Errorf("%w\n%s", err, why)
	}
	addresses, err := a.Addresses(ctx)
	return process{pid: c.Process.Pid, envoy: true}, addresses[listenerName], err
}
