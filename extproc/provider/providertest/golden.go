package providertest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// Model is a model at a provider, with its golden file.
type Model struct {
	Name string // of the file
	To   policy.Resolution
	At   provider.Endpoint
}

// Golden compares what an adapter writes for each scenario with testdata/<model's name>.golden: the plain request with one member per line,
// the differences of the others from it, and the degraded names. If update is set, it writes the files.
func Golden(t *testing.T, update bool, a provider.Adapter, models ...Model) {
	t.Helper()
	for _, m := range models {
		t.Run(m.Name, func(t *testing.T) {
			got := m.write(t, a)
			path := filepath.Join("testdata", m.Name+".golden")
			if update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
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

func (m *Model) write(t *testing.T, a provider.Adapter) []byte {
	t.Helper()
	to, at := m.To, m.At
	to.Model = shownModel
	if to.Upstream == "" {
		to.Upstream = upstreamModel
	}
	at.Provider, at.BasePath, at.Key = "p", "/v1", secret.New(sampleKey)
	var out bytes.Buffer
	plain := make([]*written, len(goldenClients))
	for i, d := range goldenClients {
		plain[i] = scenarios[0].write(t, a, to, at, d.Name())
	}
	for i := range scenarios {
		s := &scenarios[i]
		out.WriteString("# " + s.name + "\n")
		texts := make([]string, len(goldenClients))
		for j, d := range goldenClients {
			if i == 0 {
				texts[j] = plain[j].whole()
				continue
			}
			texts[j] = s.write(t, a, to, at, d.Name()).diff(plain[j])
			if texts[j] == asPlain && s.wantsThinking() {
				t.Errorf("K-19: %s, and it is not named as degraded", s.name)
			}
		}
		for j, text := range texts {
			switch {
			case i > 0 && j > 0 && text == texts[0]:
				continue
			case i == 0 || texts[0] != texts[1]:
				out.WriteString("from a client of " + string(goldenClients[j].Name()) + ":\n")
			}
			out.WriteString(text)
		}
		out.WriteString("\n")
	}
	return out.Bytes()
}

// goldenClients are the client dialects whose requests the golden files show.
var goldenClients = dialects[:2]

// written is one call.
type written struct {
	head     string
	members  []member
	degraded string
}

type member struct{ key, value string }

func (c *written) whole() string {
	var b strings.Builder
	b.WriteString(c.head)
	for _, m := range c.members {
		b.WriteString(m.line())
	}
	return b.String() + c.degraded
}

func (m member) line() string { return "    " + m.key + ": " + m.value + "\n" }

const asPlain = "    as plain chat\n"

// diff returns the differences of a call from the plain call.
func (c *written) diff(plain *written) string {
	var b strings.Builder
	if c.head != plain.head {
		b.WriteString(c.head)
	}
	for _, m := range c.members {
		if !slices.Contains(plain.members, m) {
			b.WriteString(m.line())
		}
	}
	for _, m := range plain.members {
		if !slices.ContainsFunc(c.members, func(o member) bool { return o.key == m.key }) {
			b.WriteString("    without " + m.key + "\n")
		}
	}
	if b.Len() == 0 && c.degraded == "" {
		return asPlain
	}
	return b.String() + c.degraded
}

// write encodes the call of one scenario.
func (s *scenario) write(t *testing.T, a provider.Adapter, to policy.Resolution, at provider.Endpoint, d chat.Dialect) *written {
	t.Helper()
	req, err := dialect(d).Decode(chat.Generate, nil, "", []byte(s.body(d)))
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	req.Profile, req.Cache = s.profile, s.cache
	call, err := a.Encode(nil, req, to, at)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	c := &written{head: "  POST " + call.Path + "\n"}
	for _, f := range call.Header {
		c.head += "  " + f.Name + ": " + strings.ReplaceAll(f.Value, sampleKey, "KEY") + "\n"
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		t.Fatalf("%s: %v in %s", s.name, err, call.Body)
	}
	for _, m := range doc.Members {
		c.members = append(c.members, member{m.Key, string(call.Body[m.Start:m.End])})
	}
	if len(call.Degraded) > 0 {
		c.degraded = "  degraded: " + strings.Join(call.Degraded, ", ") + "\n"
	}
	return c
}
