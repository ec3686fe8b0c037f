package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestB18ListsShowWhatAKeyMayUse: in each format, the models of the key at the providers of its plan, and no other by its name.
func TestB18ListsShowWhatAKeyMayUse(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config: quick + "billing: {tiers: {free: {exclude: [dear]}, pro: {}}}\n",
		Providers: []gateway.Provider{
			{ID: "dear", Fake: p, Models: slices.Concat(models("shared", ""), models("claude-dear", ""))},
			{ID: "own", Fake: p, Models: slices.Concat(models("shared", ""), models("claude-own", ""), models("other", ""))},
		},
	})
	for _, row := range []struct {
		about string
		flags []string
		want  string
		at    string // providers of the model "shared"
	}{
		{"any model", []string{"--tier", "pro"}, "claude-dear claude-own other shared", "dear,own"},
		{"its models", []string{"--tier", "pro", "--model", "claude-*"}, "claude-dear claude-own", ""},
		{"its plan", []string{"--tier", "free"}, "claude-own other shared", "own"},
		{"its models within its plan", []string{"--tier", "free", "--model", "claude-*"}, "claude-own", ""},
	} {
		k := g.CreateKey(t, append([]string{"--name", "k"}, row.flags...)...)
		read := func(path string, header ...string) gateway.Answer {
			return g.Do(t, gateway.Call{Method: http.MethodGet, Path: path, Key: k.Key, Header: header})
		}
		var openai struct {
			Data []struct {
				ID        string
				Providers []string
			}
		}
		got := read("/v1/models")
		got.JSON(t, &openai)
		var ids []string
		at := ""
		for _, m := range openai.Data {
			ids = append(ids, m.ID)
			if m.ID == "shared" {
				at = strings.Join(m.Providers, ",")
			}
		}
		if slices.Sort(ids); strings.Join(ids, " ") != row.want || at != row.at {
			t.Errorf("%s: %q, shared at %q", row.about, ids, at)
		}
		var claude struct {
			Data []struct{ ID string }
		}
		got = read("/v1/models", "anthropic-version: 2023-06-01")
		got.JSON(t, &claude)
		var gemini struct {
			Models []struct{ Name string }
		}
		got = read("/v1beta/models")
		got.JSON(t, &gemini)
		if len(claude.Data) != len(ids) || len(gemini.Models) != len(ids) {
			t.Errorf("%s: %+v %+v", row.about, claude, gemini)
		}
		for _, id := range []string{"shared", "claude-dear", "claude-own", "other"} {
			want := http.StatusNotFound
			if slices.Contains(ids, id) {
				want = http.StatusOK
			}
			for _, path := range []string{"/v1/models/", "/v1beta/models/"} {
				if got := read(path + id); got.Status != want {
					t.Errorf("%s: %s%s is %d: %s", row.about, path, id, got.Status, got.Body)
				}
			}
		}
	}
}
