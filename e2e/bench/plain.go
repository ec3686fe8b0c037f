package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// The plain Envoy is the gateway's own Envoy without the gateway: the same binary and arguments, its bootstrap, its client
// listener with every option, its provider cluster; but no filter save the router, and a fixed route. It is derived from
// what Envoy says its configuration is, so that it follows whatever the gateway changes.

const (
	listenerName = "http"
	routesName   = "client"
	pacedPrefix  = "/paced"
	burstCluster = "burst"
	pacedCluster = "paced"
	heldPrefix   = "/held"
	heldCluster  = "held"
)

// upstreams are the addresses of the providers.
type upstreams struct{ burst, paced, held string }

// object is a piece of Envoy's configuration, as JSON.
type object = map[string]any

// dump is the part of Envoy's config_dump that is used.
type dump struct {
	Configs []struct {
		Bootstrap object `json:"bootstrap"`
		Clusters  []struct {
			Cluster object `json:"cluster"`
		} `json:"dynamic_active_clusters"`
		Listeners []struct {
			Name   string `json:"name"`
			Active struct {
				Listener object `json:"listener"`
			} `json:"active_state"`
		} `json:"dynamic_listeners"`
		Routes []struct {
			Config object `json:"route_config"`
		} `json:"dynamic_route_configs"`
	} `json:"configs"`
}

// plainConfig writes the plain Envoy's bootstrap.
func plainConfig(raw []byte, to upstreams, admin string) ([]byte, error) {
	var d dump
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("config_dump: %w", err)
	}
	var bootstrap, listener, cluster object
	for _, c := range d.Configs {
		if c.Bootstrap != nil {
			bootstrap = c.Bootstrap
		}
		for _, l := range c.Listeners {
			if l.Name == listenerName {
				listener = l.Active.Listener
			}
		}
		for _, cl := range c.Clusters {
			if leadsTo(cl.Cluster, to.burst) {
				cluster = cl.Cluster
			}
		}
	}
	if bootstrap == nil || listener == nil || cluster == nil {
		return nil, errors.New("config_dump: no bootstrap, client listener or provider cluster")
	}
	if err := withoutGateway(listener); err != nil {
		return nil, err
	}
	burst, err1 := clusterTo(cluster, burstCluster, to.burst)
	paced, err2 := clusterTo(cluster, pacedCluster, to.paced)
	held, err3 := clusterTo(cluster, heldCluster, to.held)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for _, resource := range []object{listener, burst, paced, held} {
		delete(resource, "@type") // it stands in a list of its kind now
	}
	delete(bootstrap, "dynamic_resources")
	bootstrap["admin"] = object{"address": object{"pipe": object{"path": admin}}}
	bootstrap["static_resources"] = object{"listeners": []any{listener}, "clusters": []any{burst, paced, held}}
	return json.Marshal(bootstrap)
}

// leadsTo reports whether a cluster's first endpoint is addr. Clusters' names are the gateway's own business.
func leadsTo(cluster object, addr string) bool {
	socket, _ := at(cluster, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "socket_address").(object)
	host, _ := socket["address"].(string)
	port, _ := socket["port_value"].(float64)
	return net.JoinHostPort(host, strconv.Itoa(int(port))) == addr
}

// withoutGateway leaves the router alone in a listener's chain and gives it routes of its own.
func withoutGateway(listener object) error {
	manager, ok := at(listener, "filter_chains", 0, "filters", 0, "typed_config").(object)
	if !ok {
		return errors.New("config_dump: the listener has no HTTP connection manager")
	}
	filters, _ := manager["http_filters"].([]any)
	if len(filters) == 0 {
		return errors.New("config_dump: the listener has no filters")
	}
	manager["http_filters"] = filters[len(filters)-1:]
	delete(manager, "rds")
	manager["route_config"] = object{"virtual_hosts": []any{object{
		"name": "any", "domains": []any{"*"},
		"routes": []any{route(pacedPrefix+"/", pacedCluster), route(heldPrefix+"/", heldCluster), route("/", burstCluster)},
	}}}
	return nil
}

func route(prefix, cluster string) object {
	return object{"match": object{"prefix": prefix}, "route": object{"cluster": cluster, "timeout": "0s"}}
}

// clusterTo is a copy of a provider's cluster, without filters, that leads elsewhere.
func clusterTo(like object, name, addr string) (object, error) {
	raw, err := json.Marshal(like)
	if err != nil {
		return nil, err
	}
	var c object
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	protocols, _ := c["typed_extension_protocol_options"].(object)
	for _, o := range protocols {
		if o, ok := o.(object); ok {
			delete(o, "http_filters")
		}
	}
	address := object{"socket_address": object{"address": host, "port_value": n}}
	c["name"] = name
	c["load_assignment"] = object{"cluster_name": name, "endpoints": []any{object{"lb_endpoints": []any{
		object{"endpoint": object{"address": address}},
	}}}}
	return c, nil
}

// at follows keys and indexes; nil when there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(object)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// plainArguments are those of the running Envoy pid, with another configuration file.
func plainArguments(pid int, file string) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	var out []string
	for i, arg := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		if i > 0 {
			out = append(out, string(arg))
		}
	}
	for i := range out {
		if out[i] == "--config-path" && i+1 < len(out) {
			out[i+1] = file
			return out, nil
		}
	}
	return nil, fmt.Errorf("the gateway's Envoy runs without --config-path: %q", out)
}
