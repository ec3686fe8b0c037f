package config_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/seedtest"
)

// tree is a configuration before it is written in a format: tables by name, lists, and values as text.
type tree map[string]any

// generator generates configurations from the schema's keys.
type generator struct {
	r      *rand.Rand
	fields map[string]config.Field
	below  map[string][]string // the keys of each table
}

func newGenerator(r *rand.Rand) *generator {
	g := &generator{r: r, fields: map[string]config.Field{}, below: map[string][]string{}}
	for _, f := range config.Schema(kinds...) {
		if !f.Built {
			continue
		}
		g.fields[f.Key] = f
		parent := ""
		if i := strings.LastIndexByte(f.Key, '.'); i >= 0 {
			parent = f.Key[:i]
		}
		g.below[parent] = append(g.below[parent], f.Key)
	}
	return g
}

var wholeNumber = regexp.MustCompile(`number (?:from (-?\d+) to (-?\d+)|of at least (-?\d+))`)

// scalar returns a value for the schema's description of a type; "" if the description allows none to be generated.
func (g *generator) scalar(key, kind string) string {
	r := g.r
	choose := func(of ...string) string { return of[r.IntN(len(of))] }
	if m := wholeNumber.FindStringSubmatch(kind); m != nil {
		least, _ := strconv.ParseInt(m[1]+m[3], 10, 64) // digits alone
		most, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			most = least + 1000
		}
		return strconv.FormatInt(least+r.Int64N(most-least+1), 10)
	}
	switch {
	case strings.Contains(kind, "host:port or off"):
		return choose("off", "127.0.0.1:0", `"127.0.0.1:8080"`, `"[::1]:9"`)
	case strings.HasPrefix(kind, "sqlite://"):
		return choose("sqlite:///tmp/a.db", `"sqlite://$BARDO_HOME/b.db"`)
	case strings.HasPrefix(kind, "memory or"):
		return "memory"
	case strings.HasPrefix(kind, "unix://"):
		return choose("unix:///tmp/a.sock", "127.0.0.1:1")
	case strings.HasPrefix(kind, "a URL"):
		return choose("https://api.example/v1", "http://127.0.0.1:1/v1")
	case strings.HasPrefix(kind, "a duration"):
		return choose("1s", "5s", "30s", "2m", "1h", "90s", "250ms")
	case strings.HasPrefix(kind, "USD"):
		return choose("0", "0.25", "1", "12.5", "0.000001")
	case kind == "true or false":
		return choose("true", "false")
	case strings.HasPrefix(kind, "a secret"):
		return choose("sk-secret-0", `"${OPENAI_API_KEY}"`, "env:VLLM_KEY", `"a: b # c"`)
	case strings.Contains(kind, " or ") && !strings.Contains(kind, "such as"):
		return choose(strings.Split(strings.ReplaceAll(kind, " or ", ", "), ", ")...)
	case strings.HasSuffix(key, "_file") || strings.HasSuffix(key, ".catalog"):
		return ""
	case strings.Contains(kind, "number"):
		return choose("0", "1", "0.5", "3")
	}
	return choose("a", "word", `"two words"`, `"${PLAIN} x"`, `"ü: {\"x\"}"`, "'it''s'", `"$${NOT}"`)
}

// plainToo is the usual environment with an additional variable that is not secret.
func plainToo(name string) (string, bool) {
	if name == "PLAIN" {
		return `a "plain": {text} # ü`, true
	}
	return usual(name)
}

// table generates some of the keys of a table.
func (g *generator) table(at string, share float64) tree {
	t := tree{}
	for _, key := range g.below[at] {
		name := key[strings.LastIndexByte(key, '.')+1:]
		if name == "*" || strings.HasSuffix(name, "[]") || g.r.Float64() > share {
			continue
		}
		if v := g.value(key, share); v != nil {
			t[name] = v
		}
	}
	return t
}

func (g *generator) value(key string, share float64) any {
	kind, list := strings.CutPrefix(g.fields[key].Type, "a list: ")
	switch {
	case list && len(g.below[key+"[]"]) > 0:
		var all []any
		for range g.r.IntN(3) {
			all = append(all, g.table(key+"[]", min(1, share*3)))
		}
		return all
	case list:
		var all []any
		for range g.r.IntN(3) {
			if s := g.scalar(key, kind); s != "" {
				all = append(all, s)
			}
		}
		return all
	case len(g.below[key+".*"]) > 0:
		return tree{"one": g.table(key+".*", min(1, share*3)), "two_2": g.table(key+".*", share)}
	case len(g.below[key]) > 0:
		return g.table(key, share)
	case kind == "a table of keys":
		return nil
	}
	if s := g.scalar(key, kind); s != "" {
		return s
	}
	return nil
}

// yaml writes a tree, in blocks or in one line.
func yaml(v any, indent string, block bool) string {
	switch v := v.(type) {
	case tree:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			inner, isTree := v[k].(tree)
			if block && isTree && len(inner) > 0 {
				parts = append(parts, indent+k+":\n"+yaml(inner, indent+"  ", true))
				continue
			}
			parts = append(parts, indent+k+": "+yaml(v[k], "", false)+"\n")
		}
		if block {
			return strings.Join(parts, "")
		}
		return "{" + strings.ReplaceAll(strings.Join(parts, ", "), "\n", "") + "}"
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = yaml(v[i], "", false)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if s := fmt.Sprint(v); strings.ContainsAny(s, ":[]{}$*") && !strings.HasPrefix(s, `"`) && !strings.HasPrefix(s, "'") {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

var bareTOML = regexp.MustCompile(`^(-?\d+(\.\d+)?|true|false)$`)

// toml writes a tree, each of its members in one line.
func toml(v any, inside bool) string {
	switch v := v.(type) {
	case tree:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+" = "+toml(v[k], true))
		}
		if !inside {
			return strings.Join(parts, "\n")
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = toml(v[i], true)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	s := fmt.Sprint(v)
	switch {
	case strings.HasPrefix(s, `"`) || bareTOML.MatchString(s):
		return s
	case strings.HasPrefix(s, "'"):
		return strconv.Quote(strings.ReplaceAll(strings.Trim(s, "'"), "''", "'"))
	}
	return strconv.Quote(s)
}

// mutations damage a file, or only seem to.
var mutations = []func(r *rand.Rand, b []byte) []byte{
	func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b)+1)] },
	func(r *rand.Rand, b []byte) []byte { // a line twice
		lines := bytes.SplitAfter(b, []byte("\n"))
		i := r.IntN(len(lines))
		return bytes.Join(slices.Insert(lines, i, lines[i]), nil)
	},
	func(r *rand.Rand, b []byte) []byte { // a line fewer
		lines := bytes.SplitAfter(b, []byte("\n"))
		i := r.IntN(len(lines))
		return bytes.Join(slices.Delete(lines, i, i+1), nil)
	},
	func(r *rand.Rand, b []byte) []byte { // something in it
		at := r.IntN(len(b) + 1)
		bad := []string{"\t", "\x00", "\xff", "\u00a0", ": ", "- ", "&a ", "*a ", "<<: *a\n", "!!binary ", "{", "}", "[", "]", "#", "'", `"`, "|", ">", "?", "%", "@", "`", "\r", "---\n", "...\n", "${", "${MISSING}", "nothing: 1\n", "\ufeff", "0x7f", "1e999", "-", "null", "~"}
		return slices.Concat(b[:at], []byte(bad[r.IntN(len(bad))]), b[at:])
	},
	func(r *rand.Rand, b []byte) []byte { // another value
		at := bytes.Index(b, []byte(": "))
		for range r.IntN(20) {
			if next := bytes.Index(b[at+1:], []byte(": ")); next >= 0 {
				at += 1 + next
			}
		}
		if at < 0 {
			return b
		}
		end := at + 2 + len(b[at+2:])
		if i := bytes.IndexAny(b[at+2:], ",}\n"); i >= 0 {
			end = at + 2 + i
		}
		bad := []string{"[]", "{}", "null", "-1", "1.5", "99999999999999999999", "yes", "\"\"", "[[[]]]", "{a: {b: c}}", "1e9", "0x10", "!!int 3", "&a 1", "*a", "${MISSING}", "env:MISSING", "-5s", "5 s", "NaN", ".inf"}
		return slices.Concat(b[:at+2], []byte(bad[r.IntN(len(bad))]), b[end:])
	},
	func(_ *rand.Rand, b []byte) []byte { return append([]byte("\ufeff"), b...) },
	func(_ *rand.Rand, b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
	func(r *rand.Rand, b []byte) []byte { // deep
		n := 1 << r.IntN(12)
		return append(bytes.Clone(b), "deep: "+strings.Repeat("[", n)+strings.Repeat("]", n)+"\n"...)
	},
}

// TestGeneratedConfigurations generates files with random values of the schema's keys, valid and damaged: each is a configuration or a list of
// problems with positions. A printed configuration is read again as the same, and has no secrets. BARDO_SOAK=1 makes it longer; BARDO_SEED repeats
// one seed.
func TestGeneratedConfigurations(t *testing.T) {
	for _, seed := range seedtest.Seeds(100) {
		g := newGenerator(rand.New(rand.NewPCG(seed, 6)))
		good := 0
		for i := range 400 {
			share := []float64{0.01, 0.03, 0.1, 0.4}[i%4]
			made := g.table("", share)
			written, other := []byte(yaml(made, "", g.r.IntN(2) == 0)), []byte(toml(made, false))
			if in, out := printOf("g.yaml", written), printOf("g.toml", other); !bytes.Equal(withoutPlaces(in), withoutPlaces(out)) {
				t.Errorf("seed %d: YAML and TOML of one configuration differ:\n%s\n%s\n%s\n%s", seed, written, other, in, out)
			}
			if checkFile(t, seed, "g.yaml", written) {
				good++
			}
			if again := bytes.ReplaceAll(written, []byte("\n"), []byte("\r\n")); !bytes.Equal(printOf("g.yaml", written), printOf("g.yaml", again)) {
				t.Errorf("seed %d: with other ends of lines it is another configuration:\n%s\n%s\n%s", seed, written, printOf("g.yaml", written), printOf("g.yaml", again))
			}
			for range 1 + g.r.IntN(3) {
				written = mutations[g.r.IntN(len(mutations))](g.r, written)
			}
			checkFile(t, seed, []string{"m.yaml", "m.toml"}[g.r.IntN(8)/7], written)
			if t.Failed() {
				return
			}
		}
		if good < 20 {
			t.Errorf("seed %d: of 400 files %d are configurations", seed, good)
		}
	}
}

var place = regexp.MustCompile(`(?m)^g\.(yaml|toml):\d+: `)

// withoutPlaces returns problems without their lines, sorted.
func withoutPlaces(text []byte) []byte {
	all := strings.Split(place.ReplaceAllString(string(text), ""), "\n")
	if place.Match(text) {
		slices.Sort(all)
	}
	return []byte(strings.Join(all, "\n"))
}

func printOf(name string, written []byte) []byte {
	cfg, problems := config.Parse(name, written, plainToo, kinds...)
	if cfg == nil {
		return []byte(lines(problems))
	}
	return config.Print(cfg)
}

// checkFile reports whether a file is a configuration.
func checkFile(t *testing.T, seed uint64, name string, written []byte) bool {
	t.Helper()
	cfg, problems := config.Parse(name, written, plainToo, kinds...)
	if (cfg == nil) != config.Failed(problems) {
		t.Errorf("seed %d: a configuration: %v, with %s\n%s", seed, cfg != nil, lines(problems), written)
	}
	for _, p := range problems {
		if p.File == "" || p.Message == "" || p.File == name && p.Line < 1 || p.Line > 1+bytes.Count(written, []byte("\n"))+bytes.Count(written, []byte("\r")) {
			t.Errorf("seed %d: where is %+v?\n%s", seed, p, written)
		}
	}
	if cfg == nil {
		return false
	}
	printed := config.Print(cfg)
	if bytes.Contains(printed, []byte("sk-secret")) {
		t.Errorf("seed %d: a secret is printed of\n%s\n%s", seed, written, printed)
	}
	again, problems := config.Parse("printed.yaml", printed, variables(), kinds...)
	if again == nil {
		t.Errorf("seed %d: what is printed is not read again: %s\nof\n%s\n%s", seed, lines(problems), written, printed)
		return true
	}
	if other := config.Print(again); !bytes.Equal(other, printed) {
		t.Errorf("seed %d: what is printed is read as another configuration, of\n%s\n%s\nthen\n%s", seed, written, printed, other)
	}
	return true
}
