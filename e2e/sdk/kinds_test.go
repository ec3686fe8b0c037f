package sdk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// kinds are what clients ask for besides words, by the cases of their drivers, and how docs/clients.md calls them.
var kinds = []struct{ name, title string }{
	{"embeddings", "embeddings"}, {"prompts", "completions of a prompt"}, {"json", "JSON mode"}, {"sound", "sound"}, {"media", "images, speech, moderation"},
}

// askers are the clients of the table in docs/clients.md, each with the cases that it has means for.
var askers = []struct {
	name, title string
	argv        func(*testing.T) []string
	cases       []string
}{
	{"openai-python", "OpenAI Python", python("kinds_driver.py"), []string{"embeddings", "prompts", "json", "sound", "media"}},
	{"openai-node", "OpenAI Node", node("kinds_driver.cjs"), []string{"embeddings", "prompts", "json", "sound", "media"}},
	{"google-python", "Google Gen AI Python", python("kinds_driver.py"), []string{"json", "sound"}},
	{"google-node", "Google Gen AI Node", node("kinds_driver.cjs"), []string{"json", "sound"}},
}

// TestSDKsAskForMoreThanWords: embeddings, completions of a prompt, images, speech and moderation from a server that has them, JSON mode and sound
// over providers of every format.
func TestSDKsAskForMoreThanWords(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: settings}
	fakes := make(map[fake.Dialect]*fake.Server)
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		fakes[d] = fake.Start(t, fake.Config{Dialect: d})
		p := gateway.Provider{ID: "at-" + string(d), Fake: fakes[d], Format: string(d)}
		p.Models = []gateway.Model{{ID: "json-" + string(d)}, {ID: "sound-" + string(d)}}
		if d == fake.OpenAI {
			p.Models = append(p.Models, gateway.Model{ID: "vectors", Upstream: "bge-m3", More: "capabilities: [embeddings]"}, gateway.Model{ID: "prompts"},
				gateway.Model{ID: "painter", Price: "{per_image: 0.01}", More: "capabilities: [image_generation]"},
				gateway.Model{ID: "speaker", Price: "{characters: 15}", More: "capabilities: [speech]"},
				gateway.Model{ID: "writer", Price: "{per_hour: 0.36}", More: "capabilities: [transcription]"},
				gateway.Model{ID: "judge", Price: "{input: 0, output: 0}", More: "capabilities: [moderation]"})
		}
		o.Providers = append(o.Providers, p)
	}
	g := gateway.Run(t, o)
	reports := map[string]report{}
	for _, a := range askers {
		t.Run(a.name, func(t *testing.T) {
			out, errs, err := runDriver(t, a.argv(t), append(access(g), "BARDO_CLIENT="+a.name, "BARDO_PREFIX=", `BARDO_UNICODE=""`)...)
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, errs)
			}
			rep, err := read(strings.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range a.cases {
				if c, ran := rep.cases[name]; !ran || !c.OK {
					t.Errorf("%s: ran %v, %s", name, ran, c.Detail)
				}
			}
			reports[a.name] = rep
		})
	}
	checkHeard(t, fakes)
	if len(reports) == len(askers) { // not with -run of some
		checkTable(t, "kinds", kindsTable(reports))
	}
	g.AssertSound(t)
}

// checkHeard: the sound of each client reached the other's provider, in that one's own form.
func checkHeard(t *testing.T, fakes map[fake.Dialect]*fake.Server) {
	t.Helper()
	for d, parts := range map[fake.Dialect][]string{ //nolint:exhaustive // the third takes no sound
		fake.OpenAI: {`"format":"wav"`, `"format":"mp3"`}, fake.Gemini: {`"audio/wav"`, `"audio/mp3"`, `"audio/mpeg"`},
	} {
		heard := 0
		for _, r := range fakes[d].Generations() {
			body := strings.NewReplacer(" ", "").Replace(string(r.Body))
			if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(body, part) }) {
				heard++
			}
		}
		if heard < 2*len(askers) {
			t.Errorf("%s heard %d sounds of %d", d, heard, 2*len(askers))
		}
	}
}

func kindsTable(reports map[string]report) string {
	var b strings.Builder
	b.WriteString("| client | version |")
	for _, k := range kinds {
		b.WriteString(" " + k.title + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(kinds)) + "\n")
	for _, a := range askers {
		fmt.Fprintf(&b, "| %s | %s |", a.title, reports[a.name].version)
		for _, k := range kinds {
			cell := "–"
			if slices.Contains(a.cases, k.name) {
				cell = mark(reports[a.name].cases[k.name].OK)
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
