package providertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Model is a model at a provider that a golden file tells about.
type Model struct {
	Name string // of the file
	To   policy.Resolution
	At   provider.Endpoint
}

// Golden compares what an adapter writes for each scenario with testdata/<model's name>.golden, which is to be read: one member of the
// request in a line, and what got lost. With update, it writes the files anew.
func Golden(t *testing.T, update bool, a provider.Adapter, models ...Model) {
	t.Helper()
	for _, m := range models {
		t.Run(m.Name, func(t *testing.T) {
			got := m.tell(t, a)
			path := filepath.Join("testdata", m.Name+".golden")
			if update {
				if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // it is published with the source
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path) //nolint:gosec // a test's own file
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs, see it with -update and git diff: %s", path, firstDifference(got, want))
			}
		})
	}
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range g {
		if i >= len(w) || !bytes.Equal(g[i], w[i]) {
			return "got " + string(g[i])
		}
	}
	return "it ends early"
}

func (m *Model) tell(t *testing.T, a provider.Adapter) []byte {
	t.Helper()
	to, at := m.To, m.At
	to.Model = shownModel
	if to.Upstream == "" {
		to.Upstream = upstreamModel
	}
	at.Provider, at.BasePath, at.Key = "p", "/v1", secret
	var out bytes.Buffer
	for i := range scenarios {
		s := &scenarios[i]
		out.WriteString("# " + s.name + "\n")
		var before string
		for _, d := range dialects {
			told := s.tell(t, a, to, at, d.Name())
			if told == before {
				continue
			}
			if before = told; a.Dialect(to, at, d.Name()) == d.Name() {
				out.WriteString("\nfrom a client that speaks the provider's own format:\n")
			} else {
				out.WriteString("\nfrom a client of another format:\n")
			}
			out.WriteString(told)
		}
		out.WriteString("\n")
	}
	return out.Bytes()
}

// tell writes one call.
func (s *scenario) tell(t *testing.T, a provider.Adapter, to policy.Resolution, at provider.Endpoint, d chat.Dialect) string {
	t.Helper()
	req, err := dialect(d).Decode(chat.Generate, nil, "", []byte(s.body(d)))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	req.Profile = s.profile
	call, err := a.Encode(nil, req, to, at)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	var b strings.Builder
	b.WriteString("  POST " + call.Path + "\n")
	for _, f := range call.Header {
		b.WriteString("  " + f.Name + ": " + strings.ReplaceAll(f.Value, secret, "KEY") + "\n")
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		t.Fatalf("%s: %v in %s", s.name, err, call.Body)
	}
	for _, member := range doc.Members {
		b.WriteString("    " + member.Key + ": " + string(call.Body[member.Start:member.End]) + "\n")
	}
	if len(call.Degraded) > 0 {
		b.WriteString("  degraded: " + strings.Join(call.Degraded, ", ") + "\n")
	}
	return b.String()
}
