package reasoning_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden is an answer in a provider's documented format: the file by has its provider and model, events and chain the expected results. To
// add one, write its comment, by and in.sse or in.json, run "make golden", and check the output.
type golden struct {
	name    string
	archive *txtar.Archive
	answer
	kind string
	to   policy.Resolution
}

func goldens(t testing.TB) []golden {
	t.Helper()
	names, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("there are no golden answers", err)
	}
	all := make([]golden, 0, len(names))
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		g := golden{name: filepath.Base(name), archive: archive}
		g.read(t)
		all = append(all, g)
	}
	return all
}

// file returns the text of a file of the archive.
func (g *golden) file(name string) string {
	for _, f := range g.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func (g *golden) read(t testing.TB) {
	t.Helper()
	for l := range strings.Lines(g.file("by")) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch key {
		case "kind":
			g.kind, g.to.Provider = value, policy.ProviderID(value)
		case "spoken":
			g.format = chat.Dialect(value)
		case "model":
			g.to.Model, g.to.Upstream = policy.ModelID(value), value
		case "family":
			g.to.Family = value
		case "implicit":
			g.to.ImplicitOpen = true
		case "adaptive":
			g.to.AdaptiveThinking = true
		default:
			t.Fatalf("%s: %q", g.name, l)
		}
	}
	d := reasoning.Of(kinds[g.kind], &g.to, g.format)
	g.options = reasoning.Options{Tags: d.Tags, Implicit: g.to.ImplicitOpen}
	g.stream, g.body = true, []byte(strings.TrimRight(g.file("in.sse"), "\n")+"\n\n")
	if whole := g.file("in.json"); whole != "" {
		g.stream, g.body = false, []byte(strings.TrimSpace(whole))
	}
}

// chain is the answer's reasoning chain as JSON.
func (g *golden) chain(t *testing.T) string {
	t.Helper()
	recorder := reasoning.NewRecorder(reasoning.Of(kinds[g.kind], &g.to, g.format), &g.to)
	var u chat.Usage
	r := &chat.Request{Dialect: chat.Gemini, Stream: g.stream}
	if g.format == chat.Gemini {
		r.Dialect = chat.OpenAI
	}
	dec := g.decoder(r)
	reader := reasoning.NewReader(g.options)
	for _, ev := range dec.Decode(g.body, true) {
		list := []chat.Event{ev}
		if len(g.options.Tags) > 0 {
			list = reader.Read(&ev)
		}
		for i := range list {
			recorder.Add(&list[i])
			if list[i].Kind == chat.UsageInfo {
				u.Merge(list[i].Usage)
			}
		}
	}
	b, err := json.MarshalIndent(recorder.Chain(&u), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestGoldenAnswers(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			client := chat.Gemini
			if g.format == chat.Gemini {
				client = chat.OpenAI
			}
			_, events := g.shown(client)
			out := []txtar.File{{Name: "events", Data: []byte(events)}, {Name: "chain", Data: []byte(g.chain(t))}}
			if *update {
				g.write(t, out)
				return
			}
			for _, f := range out {
				if want := g.file(f.Name); string(f.Data) != want {
					t.Errorf("%s are\n%s\nwant\n%s", f.Name, f.Data, want)
				}
			}
		})
	}
}

func (g *golden) write(t *testing.T, out []txtar.File) {
	t.Helper()
	a := txtar.Archive{Comment: g.archive.Comment}
	for _, f := range g.archive.Files {
		if f.Name == "by" || strings.HasPrefix(f.Name, "in.") {
			a.Files = append(a.Files, f)
		}
	}
	a.Files = append(a.Files, out...)
	if err := os.WriteFile(filepath.Join("testdata", "golden", g.name), txtar.Format(&a), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzD40WhereAnAnswerIsCutChangesNothing: for any bytes of a provider, in every format and for every client, the events and the client's
// bytes do not depend on the cuts. wire/crossing tests the golden answers, cut at every byte.
func FuzzD40WhereAnAnswerIsCutChangesNothing(f *testing.F) {
	all := goldens(f)
	for i := range all {
		f.Add(all[i].body, uint8(i), uint16(len(all[i].body)/2), uint16(len(all[i].body)/3), uint8(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, which uint8, a, b uint16, client uint8) {
		g := all[int(which)%len(all)].answer
		g.body = body
		one, two := int(a)%(len(body)+1), int(b)%(len(body)+1)
		cuts := []int{min(one, two), max(one, two)}
		if cuts[1] == len(body) { // a piece that ends the body is its last
			cuts = nil
		}
		to := clients[int(client)%len(clients)]
		want, events := g.shown(to)
		if got, same := g.shown(to, cuts...); !bytes.Equal(got, want) || same != events {
			t.Fatalf("%q for %s, cut at %v, says\n%s\n%s\nwant\n%s\n%s", body, to, cuts, same, got, events, want)
		}
	})
}
