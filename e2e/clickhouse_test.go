package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/e2e/receiver"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/s3test"
)

// warehouse is a configuration that exports usage to a fake ClickHouse, with more of its section.
func warehouse(c *receiver.ClickHouse, more ...string) string {
	return fmt.Sprintf("telemetry: {clickhouse: %q, clickhouse_user: bardo, clickhouse_password: %s, clickhouse_table: usage_of.bardo, clickhouse_events_table: usage_of.events, clickhouse_interval: 100ms%s}\n", c.URL, receiver.ClickHousePassword, strings.Join(more, ""))
}

// servedTo sends n requests with a key, all at once, and returns the ids of those that were answered.
func servedTo(t *testing.T, g *gateway.Gateway, key string, n int) (ids []string) {
	t.Helper()
	for range n {
		call := ask{dialect: fake.OpenAI, model: "m", say: "PLANTED question"}.call()
		call.Key = key
		got := g.Do(t, call)
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		ids = append(ids, got.Header.Get("X-Request-Id"))
	}
	return ids
}

// inWarehouse waits until ClickHouse has just these requests, and returns their rows by id.
func inWarehouse(t *testing.T, c *receiver.ClickHouse, ids []string) map[string]map[string]any {
	t.Helper()
	var byID map[string]map[string]any
	eventually(t, fmt.Sprintf("%d rows", len(ids)), func() bool {
		byID = map[string]map[string]any{}
		rows, _ := c.Rows()
		for _, r := range rows {
			byID[r["request_id"].(string)] = r
		}
		return len(byID) >= len(ids)
	})
	if got := slices.Sorted(maps.Keys(byID)); !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
		t.Errorf("%v, want %v", got, ids)
	}
	return byID
}

// routedInWarehouse waits until ClickHouse has the event of the routing of each of these requests, just once, and returns all events.
func routedInWarehouse(t *testing.T, c *receiver.ClickHouse, ids []string) []map[string]any {
	t.Helper()
	var all []map[string]any
	var routed []string
	eventually(t, fmt.Sprintf("%d events", len(ids)), func() bool {
		all, _ = c.Events()
		routed = nil
		for _, r := range all {
			if r["event"] == "provider:resolved" {
				routed = append(routed, r["request_id"].(string))
			}
		}
		return len(routed) >= len(ids)
	})
	if slices.Sort(routed); !slices.Equal(routed, slices.Sorted(slices.Values(ids))) {
		t.Errorf("events of %v, want %v", routed, ids)
	}
	return all
}

// spooledIn waits until the gateway of a state directory keeps an event of each of these requests on the disk.
func spooledIn(t *testing.T, home string, ids []string) {
	t.Helper()
	eventually(t, "events on the disk", func() bool {
		all, err := event.Segments(filepath.Join(home, "events"))
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for _, s := range all {
			b, _ := os.ReadFile(s.Path) // one that is exported is removed
			text = append(text, b...)
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !bytes.Contains(text, []byte(id)) })
	})
}

// TestX10UsageIsExportedToClickHouse: a row for each request, whose sums are those of the ledger, without content; so are events. The tables are made where they are not there.
// An object store gets the days that are over, with signatures that it verifies (B-16).
func TestX10UsageIsExportedToClickHouse(t *testing.T) {
	t.Parallel()
	c, s3 := receiver.StartClickHouse(t), s3test.Start(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Text: "PLANTED answer", Usage: &fake.Usage{Input: 1000, Output: 500}})
	objects := fmt.Sprintf(", object_store: {endpoint: %q, region: %s, bucket: %s, access_key: %s, secret_key: %q}", s3.URL, s3test.Region, s3test.Bucket, s3test.Access, s3test.Secret)
	g := gateway.Run(t, gateway.Options{Config: quick + warehouse(c, objects), Providers: []gateway.Provider{{ID: "first", Fake: p, Models: models("m", "")}}})
	g.Bardo(t, "owners", "create", "acme")
	g.Bardo(t, "projects", "create", "web", "--owner", "acme")
	key := g.CreateKey(t, "--name", "alice", "--project", "web")
	ids := servedTo(t, g, key.Key, 3)
	rows := inWarehouse(t, c, ids)
	for _, r := range routedInWarehouse(t, c, ids) {
		if r["request_id"] != "" && r["key"] != key.ID || !json.Valid([]byte(r["data"].(string))) || strings.Contains(fmt.Sprint(r), "PLANTED") {
			t.Errorf("an event is %v", r)
		}
	}
	var cost float64
	for id, r := range rows {
		if r["key"] != key.ID || r["project"] != "web" || r["provider"] != "first" || r["model"] != "m" || fmt.Sprintf("%s %s", r["input_tokens"], r["output_tokens"]) != "1000 500" {
			t.Errorf("%s: %v", id, r)
		}
		n, err := r["cost_usd"].(json.Number).Float64()
		if err != nil {
			t.Fatal(err)
		}
		cost += n
		if text := fmt.Sprint(r); strings.Contains(text, "PLANTED") {
			t.Errorf("content: %s", text)
		}
	}
	var usage []struct {
		Cost float64 `json:"cost_usd"`
	}
	if err := json.Unmarshal([]byte(g.Bardo(t, "usage", "--by", "key", "--key", key.ID, "--json")), &usage); err != nil || len(usage) != 1 {
		t.Fatalf("%v %v", err, usage)
	}
	if d := cost - usage[0].Cost; d > 1e-9 || d < -1e-9 || cost == 0 {
		t.Errorf("ClickHouse has %v USD, the ledger %v", cost, usage[0].Cost)
	}
	eventually(t, "a week in the object store", func() bool { names, _ := s3.Objects(); return len(names) == 7 })
	if names, _ := s3.Objects(); !strings.HasPrefix(names[6], "bardo/usage/20") || !strings.HasPrefix(s3.Object(names[6]), "project,key,model,requests,") {
		t.Errorf("%s: %s", names[6], s3.Object(names[6]))
	}
	if text := g.Log() + g.Bardo(t, "config", "print"); strings.Contains(text, "PLANTED") {
		t.Errorf("a secret or content is shown: %s", text)
	}
}

// TestX10NothingIsLostByAClickHouseThatFails, nor by a gateway that is killed: each request and each event is a row once in the end, and no request waits for it.
func TestX10NothingIsLostByAClickHouseThatFails(t *testing.T) {
	t.Parallel()
	c := receiver.StartClickHouse(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick + warehouse(c), Providers: []gateway.Provider{{ID: "first", Fake: p, Models: models("m", "")}}, Home: t.TempDir()}
	g := gateway.Run(t, o)
	key := g.CreateKey(t, "--name", "alice")
	ids := servedTo(t, g, key.Key, 2)
	inWarehouse(t, c, ids)
	routedInWarehouse(t, c, ids)

	c.Hold()
	ids = append(ids, servedTo(t, g, key.Key, 20)...) // none waits
	c.Fail(1, 1)                                      // once before rows are inserted, and once after it
	c.Release()
	inWarehouse(t, c, ids)
	eventually(t, "the rows that were inserted and answered with an error come again", func() bool { _, n := c.Rows(); return n > len(ids) })
	eventually(t, "so do events", func() bool { rows, n := c.Events(); return n > len(rows) })
	routedInWarehouse(t, c, ids)

	c.Hold()
	last := servedTo(t, g, key.Key, 5)
	ids = append(ids, last...)
	spooledIn(t, o.Home, last)
	g.Kill()
	c.Release()
	o.NoKey = true
	g = gateway.Run(t, o)
	ids = append(ids, servedTo(t, g, key.Key, 3)...)
	inWarehouse(t, c, ids)
	routedInWarehouse(t, c, ids)
	before, all := c.Rows()
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = gateway.Run(t, o)
	ids = append(ids, servedTo(t, g, key.Key, 1)...)
	inWarehouse(t, c, ids)
	routedInWarehouse(t, c, ids)
	if _, n := c.Rows(); n != all+1 {
		t.Errorf("a gateway that is started again sends %d rows again, of %d", n-all-1, len(before))
	}
}
