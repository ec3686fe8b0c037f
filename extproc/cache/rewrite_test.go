package cache_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// rewritten is a JSON text with its members in another order, other white space, and other spellings of strings and numbers.
func rewritten(t *testing.T, body string, rng *rand.Rand) string {
	t.Helper()
	v, err := jsonx.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	w := rewriter{rng: rng}
	w.value(v, 0)
	return w.b.String()
}

type rewriter struct {
	b   strings.Builder
	rng *rand.Rand
}

func (w *rewriter) space() {
	_, _ = w.b.WriteString([...]string{"", " ", "\n", "\t \r\n"}[w.rng.IntN(4)])
}

func (w *rewriter) value(v jsonx.Value, depth int) {
	w.space()
	defer w.space()
	switch v.Kind() {
	case jsonx.Object:
		w.object(v, depth)
	case jsonx.Array:
		_ = w.b.WriteByte('[')
		for i, e := range v.Each {
			if i > 0 {
				_ = w.b.WriteByte(',')
			}
			w.value(e, depth+1)
		}
		_ = w.b.WriteByte(']')
	case jsonx.String:
		w.text(v)
	case jsonx.Number:
		w.number(string(v.Raw))
	default:
		_, _ = w.b.Write(v.Raw)
	}
}

// object shuffles members, but keeps the order of those of the same name. Values deeper than maxCanonicalDepth are not changed.
func (w *rewriter) object(v jsonx.Value, depth int) {
	if depth > 30 {
		_, _ = w.b.Write(v.Raw)
		return
	}
	type member struct {
		key string
		v   jsonx.Value
	}
	var ms []member
	names := map[string]bool{}
	for k, m := range v.Members {
		ms = append(ms, member{string(k), m})
		names[string(k)] = true
	}
	if len(names) == len(ms) {
		w.rng.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
	}
	_ = w.b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			_ = w.b.WriteByte(',')
		}
		w.space()
		_, _ = w.b.Write(jsonx.AppendString(nil, m.key))
		w.space()
		_ = w.b.WriteByte(':')
		w.value(m.v, depth+1)
	}
	_ = w.b.WriteByte('}')
}

// text writes a string with its escapes resolved, unless one of them is no valid text.
func (w *rewriter) text(v jsonx.Value) {
	s, _ := v.Str()
	if strings.ContainsRune(s, '�') {
		_, _ = w.b.Write(v.Raw)
		return
	}
	_, _ = w.b.Write(jsonx.AppendString(nil, s))
}

// number gives a fraction more zeros. Whole numbers stay: some readers take no other spelling.
func (w *rewriter) number(s string) {
	if strings.Contains(s, ".") && !strings.ContainsAny(s, "eE") {
		s += strings.Repeat("0", w.rng.IntN(3))
	}
	_, _ = w.b.WriteString(s)
}
