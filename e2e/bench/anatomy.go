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
	"strings"
	"time"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The anatomy is where a request's time goes: Envoys with the gateway's own configuration, each without one part of it, side by side. All but the
// last of them are served by an ext_proc server that only hands bodies back (empty.go): what the gateway's Go program costs is a row of its own.

// specimen is one Envoy of the anatomy.
type specimen struct {
	name    string
	without []func(*parts) // what is taken out of the gateway's configuration
	gateway bool           // it is served by the gateway's Go program
	way     subject
}

// parts are the pieces of an Envoy's configuration.
type parts struct {
	bootstrap, listener, routes object
	clusters                    []any
}

// specimens are the rows of the anatomy.
func specimens() []*specimen {
	one := func(name string, f func(*parts)) *specimen {
		return &specimen{name: "without " + name, without: []func(*parts){f}}
	}
	out := []*specimen{
		{name: "the gateway", gateway: true},
		{name: "the same Envoy, an empty server"},
		one("the script on answers", withoutFilter("envoy.filters.http.lua")),
		one("the removal of internal headers", withoutFilter("envoy.filters.http.header_mutation")),
		one("attributes", withoutAttributes),
		one("metadata of the request in messages", withoutForwarding),
		one("the order of clusters", withoutOrder),
		one("retries", withoutRoute("retry_policy")),
		one("the hash policy", withoutRoute("hash_policy")),
		one("counts of attempts", withoutCounts),
		one("replies of Envoy's own", withoutManager("local_reply_config")),
		one("statistics by status", withoutStatusStatistics),
	}
	all := &specimen{name: "without all of these"}
	for _, s := range out[2:] {
		all.without = append(all.without, s.without...)
	}
	return append(out, all)
}

// anatomy measures all specimens round by round and writes the table.
func (l *lab) anatomy(ctx context.Context, rounds int, window time.Duration, w io.Writer) error {
	p, err := l.parts(ctx)
	if err != nil {
		return err
	}
	server, err := l.startEmpty(p.burstCluster())
	if err != nil {
		return err
	}
	all := specimens()
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
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return anatomyTable(w, cases, ways, measured)
}

// ways are the specimens, with the direct way and plain Envoy before them.
func (l *lab) ways(c testCase, all []*specimen) []subject {
	out := l.subjects(c)[:2]
	for _, s := range all {
		out = append(out, s.way)
	}
	return out
}

func anatomyTable(w io.Writer, cases []testCase, ways []subject, measured *series) error {
	var b bytes.Buffer
	heading(&b, "Where the time goes", "Envoy's configuration", "added p50 µs, 1 connection", "CPU µs, 64 connections: Envoy", "Go", "together, × plain")
	for _, s := range ways[1:] {
		one := summarizeRounds(cases[0], s.name, measured.rounds[cases[0].name()])
		many := summarizeRounds(cases[1], s.name, measured.rounds[cases[1].name()])
		row(&b, s.name, micros(one.AddedP50), micros(many.EnvoyCPU), micros(many.GoCPU), many.times(many.CPURatio))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// startSpecimen starts one Envoy.
func (l *lab) startSpecimen(ctx context.Context, s *specimen, n int, empty emptyServer) error {
	p, err := l.parts(ctx)
	if err != nil {
		return err
	}
	program := l.gateways[0].program
	if !s.gateway {
		p.serveFrom(empty.socket)
		program = empty.process
	}
	for _, take := range s.without {
		take(p)
	}
	admin := filepath.Join(l.dir, fmt.Sprintf("admin%d.sock", n))
	config, err := p.static(admin)
	if err != nil {
		return err
	}
	started, addr, err := l.startEnvoy(ctx, fmt.Sprintf("specimen%d", n), admin, config)
	if err != nil {
		return err
	}
	s.way = subject{s.name, addr, request("/v1/chat/completions", modelOne, "", testCase{size: 1_000}), []process{started, program}, nil}
	return nil
}

// parts reads the gateway's own configuration.
func (l *lab) parts(ctx context.Context) (*parts, error) {
	raw, err := l.gatewayDump(ctx)
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

// serveFrom leads the ext_proc filters to another server.
func (p *parts) serveFrom(socket string) {
	for _, c := range p.clusters {
		if at(c, "name") == state.ClusterExtProc {
			endpoint, _ := at(c, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint").(object)
			endpoint["address"] = object{"pipe": object{"path": socket}}
		}
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

// emptyServer is the process of the ext_proc server that only hands bodies back.
type emptyServer struct {
	process
	socket string
}

// startEmpty runs this program again as the empty server.
func (l *lab) startEmpty(cluster string) (emptyServer, error) {
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
	return emptyServer{process{pid: c.Process.Pid}, socket}, nil
}

// startWithin bounds how long an Envoy may take.
const startWithin = 30 * time.Second

// startEnvoy starts an Envoy with the gateway's arguments and another configuration, and returns the address of its client listener.
func (l *lab) startEnvoy(ctx context.Context, name, admin string, config []byte) (_ process, addr string, err error) {
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
