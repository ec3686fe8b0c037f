package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/jsonx"
	subsystems "bardo.money/gateway/policy/profile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// askedFor are the models that subsystems are served by, one or more of each provider.
var askedFor = []string{
	"anthropic/claude-opus-4-6", "anthropic/claude-haiku-4-5", "openai/gpt-5.2", "openai/gpt-4.1", "venice/deepseek-r1", "venice/claude-opus-4-6",
	"bankr/claude-haiku-4-5", "bankr/gpt-5.2", "openrouter/claude-opus-4-6", "openrouter/deepseek-v3.2", "blockrun/claude-opus-4-6", "blockrun/gpt-5.2",
	"blockrun/gemini-3-flash-preview", "blockrun/qwen3-235b-a22b", "blockrun/deepseek-r1",
}

// TestEverySubsystemAtEveryProvider: what each subsystem says to each provider is what its golden file tells, and the provider
// takes it by its own rules.
func TestEverySubsystemAtEveryProvider(t *testing.T) {
	t.Parallel()
	fakes := map[string]*fake.Server{
		"anthropic": fake.Start(t, fake.Config{Dialect: fake.Anthropic}), "openai": fake.Start(t, fake.Config{Dialect: fake.OpenAI}),
	}
	config := quick + "providers:\n"
	for _, p := range []struct{ name, section string }{
		{"anthropic", "{base_url: %q, api_key: %q}"},
		{"openai", "{base_url: %q, api_key: %q}"},
		{"venice", "{base_url: %q, api_key: %q, models: [{id: deepseek-r1, capabilities: [visible_thinking, tee_attested], thinking: {control: effort}}, {id: claude-opus-4-6}]}"},
		{"bankr", "{endpoint: %q, api_key: %q, models: [{id: claude-haiku-4-5, upstream_id: claude-haiku-4.5}, {id: gpt-5.2}]}"},
		{"openrouter", "{endpoint: %q, api_key: %q, models: [{id: claude-opus-4-6, upstream_id: anthropic/claude-opus-4.6}, {id: deepseek-v3.2, upstream_id: deepseek/deepseek-v3.2}]}"},
		{"blockrun", "{endpoint: %q, api_key: %q, models: [{id: claude-opus-4-6, upstream_id: anthropic/claude-opus-4.6}, {id: gpt-5.2, upstream_id: openai/gpt-5.2}, " +
			"{id: gemini-3-flash-preview, upstream_id: google/gemini-3-flash}, {id: qwen3-235b-a22b, upstream_id: qwen/qwen3-235b}, {id: deepseek-r1, upstream_id: deepseek/deepseek-r1}]}"},
	} {
		s := fakes[p.name]
		if s == nil {
			s = fake.Start(t, fake.Config{Vendor: fake.Vendor(p.name)})
			fakes[p.name] = s
		}
		config += "  " + p.name + ": " + fmt.Sprintf(p.section, s.URL, s.Key) + "\n"
	}
	g := gateway.Run(t, gateway.Options{Config: config})
	for _, id := range askedFor {
		t.Run(id, func(t *testing.T) {
			name, _, _ := strings.Cut(id, "/")
			got := subsystemsAt(t, g, fakes[name], id)
			path := filepath.Join("testdata", "subsystems", strings.ReplaceAll(id, "/", " ")+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs, see it with -update and git diff:\n%s", path, got)
			}
		})
	}
	g.AssertSound(t)
}

// subsystemsAt tells what every subsystem sends to a model besides what everybody sends.
func subsystemsAt(t *testing.T, g *gateway.Gateway, s *fake.Server, id string) string {
	t.Helper()
	var b strings.Builder
	clients := []fake.Dialect{fake.OpenAI, fake.Anthropic}
	plain := make([][]string, len(clients))
	for _, name := range append([]string{""}, subsystems.Names()...) {
		if name != "" {
			b.WriteString("# " + name + "\n")
		}
		var before string
		for i, d := range clients {
			told, lost := subsystemAt(t, g, s, ask{dialect: d, model: id}, name)
			if name == "" {
				plain[i] = told
				continue
			}
			text := unlike(told, plain[i]) + lost
			if text != before {
				if before != "" {
					b.WriteString("from a client of another format:\n")
				}
				b.WriteString(text)
			}
			before = text
		}
		if name != "" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// subsystemAt is what one request says, member by member, and what of it got lost.
func subsystemAt(t *testing.T, g *gateway.Gateway, s *fake.Server, a ask, subsystem string) (told []string, lost string) {
	t.Helper()
	header := []string{"X-Bardo-Golem-Id: 7"}
	if subsystem != "" {
		header = append(header, "X-Bardo-Subsystem: "+subsystem)
	}
	got := g.Do(t, a.call(header...))
	if got.Status != http.StatusOK {
		r, _ := s.Last()
		t.Fatalf("%s from %s: %d %s\nit was asked %s", subsystem, a.dialect, got.Status, got.Body, r.Body)
	}
	r := lastOf(t, s)
	doc, err := jsonx.Scan(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Members {
		told = append(told, "  "+m.Key+": "+string(r.Body[m.Start:m.End])+"\n")
	}
	slices.Sort(told) // their order is the client's where it wrote them
	if d := got.Header.Get("X-Bardo-Degraded"); d != "" {
		lost = "  degraded: " + d + "\n"
	}
	return told, lost
}

// unlike are the members that another request does not have.
func unlike(told, plain []string) string {
	var b strings.Builder
	for _, m := range told {
		if !strings.Contains(strings.Join(plain, ""), m) {
			b.WriteString(m)
		}
	}
	return b.String()
}
