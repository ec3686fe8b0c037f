package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

const gatewayConfig = `{"configs": [
 {"@type": "…BootstrapConfigDump", "bootstrap": {"node": {"id": "bardo"}, "dynamic_resources": {"ads_config": {}}, "admin": {"address": {}},
   "static_resources": {"clusters": [{"name": "xds"}]}, "stats_config": {"use_all_default_tags": true}}},
 {"@type": "…ClustersConfigDump", "dynamic_active_clusters": [
   {"cluster": {"@type": "…Cluster", "name": "extproc"}},
   {"cluster": {"@type": "…Cluster", "name": "p:burst", "connect_timeout": "5s", "load_assignment": {"endpoints": [
     {"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1001}}}}]}]},
     "typed_extension_protocol_options": {"http": {"@type": "…HttpProtocolOptions", "explicit_http_config": {"http_protocol_options": {}}, "http_filters": [{"name": "lua"}]}}}}]},
 {"@type": "…ListenersConfigDump", "dynamic_listeners": [
   {"name": "egress", "active_state": {"listener": {"name": "egress"}}},
   {"name": "http", "active_state": {"listener": {"@type": "…Listener", "name": "http", "per_connection_buffer_limit_bytes": 1048576,
     "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {"@type": "…HttpConnectionManager", "normalize_path": true,
       "rds": {"route_config_name": "client"}, "http_filters": [{"name": "ext_proc"}, {"name": "router"}]}}]}]}}}]}
]}`

func TestThePlainEnvoyIsTheGatewaysWithoutTheGateway(t *testing.T) {
	raw, err := plainConfig([]byte(gatewayConfig), upstreams{burst: "127.0.0.1:1001", paced: "127.0.0.1:1002", held: "127.0.0.1:1003"}, "/run/admin.sock")
	if err != nil {
		t.Fatal(err)
	}
	var got object
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	const listener, cluster = "static_resources listeners 0 ", "static_resources clusters 1 "
	const manager = listener + "filter_chains 0 filters 0 typed_config "
	for _, tt := range []struct {
		name, path string
		want       any
	}{
		{"the statistics stay", "stats_config use_all_default_tags", true},
		{"the control plane goes", "dynamic_resources", nil},
		{"the admin socket is its own", "admin address pipe path", "/run/admin.sock"},
		{"the listener keeps its buffers", listener + "per_connection_buffer_limit_bytes", 1048576.0},
		{"the listener is no resource any more", listener + "@type", nil},
		{"the manager keeps its options", manager + "normalize_path", true},
		{"its routes are fixed", manager + "rds", nil},
		{"only the router is left", manager + "http_filters", []any{object{"name": "router"}}},
		{"paced requests have their route", manager + "route_config virtual_hosts 0 routes 0 route cluster", "paced"},
		{"a cluster keeps its options", cluster + "connect_timeout", "5s"},
		{"and has no filters", cluster + "typed_extension_protocol_options http http_filters", nil},
		{"and leads to its provider", cluster + "load_assignment endpoints 0 lb_endpoints 0 endpoint address socket_address port_value", 1002.0},
	} {
		if v := at(got, steps(tt.path)...); !reflect.DeepEqual(v, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, v, tt.want)
		}
	}
}

// steps are the words of a path; numbers are indexes.
func steps(path string) []any {
	var out []any
	for word := range strings.FieldsSeq(path) {
		if n, err := strconv.Atoi(word); err == nil {
			out = append(out, n)
			continue
		}
		out = append(out, word)
	}
	return out
}

func TestAConfigurationWithoutAListenerIsAnError(t *testing.T) {
	for _, raw := range []string{`{}`, `nonsense`, gatewayConfig[:40], `{"configs": [{"bootstrap": {}}]}`} {
		if _, err := plainConfig([]byte(raw), upstreams{burst: "127.0.0.1:1", paced: "127.0.0.1:2"}, "/a"); err == nil {
			t.Errorf("no error for %.40s", raw)
		}
	}
}

func TestTheUseOfTheMachineIsRead(t *testing.T) {
	pid := os.Getpid()
	if mb := megabytesOf(pid); mb.Own < 1 || mb.All <= mb.Own || mb.All > 10_000 {
		t.Errorf("%v MB", mb)
	}
	before, err := usage([]process{{pid: pid}})
	if err != nil {
		t.Fatal(err)
	}
	for { // until the kernel's clock has seen this loop
		after, err := usage([]process{{pid: pid}})
		if err != nil {
			t.Fatal(err)
		}
		if after.program > before.program {
			break
		}
	}
	parent, err := stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(os.Getppid()); parent[1] != want {
		t.Errorf("the parent is %s, want %s", parent[1], want)
	}
}
