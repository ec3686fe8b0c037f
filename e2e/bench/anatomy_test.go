package main

import (
	"encoding/json"
	"reflect"
	"testing"
)

const anatomyDump = `{"configs": [
 {"bootstrap": {"node": {"id": "bardo"}, "dynamic_resources": {"ads_config": {}}}},
 {"dynamic_active_clusters": [
   {"cluster": {"@type": "…Cluster", "name": "bardo_extproc", "load_assignment": {"endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": "/run/old"}}}}]}]}}},
   {"cluster": {"@type": "…Cluster", "name": "burst", "typed_extension_protocol_options": {"http": {"http_filters": [
     {"name": "envoy.filters.http.lua"}, {"name": "envoy.filters.http.header_mutation"}, {"name": "codec"}]}}}}]},
 {"dynamic_listeners": [{"name": "http", "active_state": {"listener": {"@type": "…Listener", "filter_chains": [{"filters": [{"typed_config": {
   "rds": {"route_config_name": "client"}, "local_reply_config": {}, "http_filters": [
     {"typed_config": {"request_attributes": ["a"], "response_attributes": ["b"], "metadata_options": {"forwarding_namespaces": {}, "receiving_namespaces": {}}}},
     {"typed_config": {"suppress_envoy_headers": true}}]}}]}]}}}]},
 {"dynamic_route_configs": [{"route_config": {"name": "egress"}}, {"route_config": {"name": "client", "virtual_hosts": [{"include_request_attempt_count": true,
   "routes": [{"route": {"inline_cluster_specifier_plugin": {}, "retry_policy": {}, "hash_policy": []}}]}]}}]}
]}`

// Each specimen lacks what its name says, and has the rest.
func TestASpecimenLacksOnePart(t *testing.T) {
	const manager = "static_resources listeners 0 filter_chains 0 filters 0 typed_config "
	const filter, route = manager + "http_filters 0 typed_config ", manager + "route_config virtual_hosts 0 routes 0 route "
	for _, tt := range []struct {
		name string
		cut  func(*parts)
		path string
		want any
	}{
		{"nothing is cut", func(*parts) {}, "static_resources clusters 1 typed_extension_protocol_options http http_filters 0 name", "envoy.filters.http.lua"},
		{"no control plane", func(*parts) {}, "dynamic_resources", nil},
		{"routes are in the listener", func(*parts) {}, manager + "rds", nil},
		{"no script", withoutFilter("envoy.filters.http.lua"), "static_resources clusters 1 typed_extension_protocol_options http http_filters 0 name", "envoy.filters.http.header_mutation"},
		{"no attributes of requests", withoutAttributes, filter + "request_attributes", nil},
		{"nor of responses", withoutAttributes, filter + "response_attributes", nil},
		{"no metadata in messages", withoutForwarding, filter + "metadata_options forwarding_namespaces", nil},
		{"but in answers", withoutForwarding, filter + "metadata_options receiving_namespaces", object{}},
		{"no order", withoutOrder, route + "cluster", burstProvider},
		{"no retries", withoutRoute("retry_policy"), route + "retry_policy", nil},
		{"no counts", withoutCounts, manager + "route_config virtual_hosts 0 include_request_attempt_count", nil},
		{"no replies", withoutManager("local_reply_config"), manager + "local_reply_config", nil},
		{"no statistics", withoutStatusStatistics, manager + "http_filters 1 typed_config dynamic_stats", false},
		{"another server", func(p *parts) { p.serveFrom(emptyServer{socket: "/run/new"}) }, "static_resources clusters 0 load_assignment endpoints 0 lb_endpoints 0 endpoint address pipe path", "/run/new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := readParts([]byte(anatomyDump))
			if err != nil {
				t.Fatal(err)
			}
			tt.cut(p)
			raw, err := p.static("/run/admin.sock")
			if err != nil {
				t.Fatal(err)
			}
			var got object
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if v := at(got, steps(tt.path)...); !reflect.DeepEqual(v, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.path, v, tt.want)
			}
		})
	}
}
