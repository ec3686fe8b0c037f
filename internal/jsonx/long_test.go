package jsonx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// visits are what a walk of a value saw.
type visits struct{ list []string }

func (w *visits) note(kind string, key []byte, v Value) {
	w.list = append(w.list, fmt.Sprintf("%s %q %d %s", kind, key, v.At, v.Raw))
}

func (w *visits) Enter(at Step, kind Kind, empty bool) bool {
	w.list = append(w.list, fmt.Sprintf("enter %q %d %v %t", at.Key, at.Index, kind, empty))
	return at.Index != 3 // some are skipped
}

func (w *visits) Leave() { w.list = append(w.list, "leave") }

func (w *visits) Scalar(at Step, v Value) { w.note("scalar", at.Key, v) }

// all walks a value by every method.
func (w *visits) all(v Value) {
	for i, e := range v.Each {
		w.note("element", []byte{byte('0' + i%10)}, e)
		w.all(e)
	}
	for key, m := range v.Members {
		w.note("member", key, m)
		w.all(m)
	}
	if v.Kind() == String {
		return
	}
	for s, isName := range v.Scalars {
		w.note(fmt.Sprint("scalar ", isName), nil, s)
	}
	v.Walk(w)
}

// differs compares walks of a document with recorded long strings and of its text alone.
func differs(t *testing.T, b []byte) {
	t.Helper()
	d, err := Scan(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	var got, want visits
	got.all(d.Root())
	want.all(Value{Raw: d.Root().Raw, At: d.Root().At})
	for i := range d.Members {
		m := &d.Members[i]
		v := d.Get(m.Key)
		got.all(v)
		want.all(Value{Raw: v.Raw, At: v.At})
	}
	for i := range want.list {
		if i >= len(got.list) || got.list[i] != want.list[i] {
			t.Fatalf("%.300s, want %.300s", got.list[min(i, len(got.list)-1)], want.list[i])
		}
	}
	if len(got.list) != len(want.list) {
		t.Fatalf("%d visits, want %d", len(got.list), len(want.list))
	}
}

// randomValue returns a value of a large document, with long and short strings.
func randomValue(r *rand.Rand, depth int) string {
	text := func() string {
		pieces := []string{"x", `\"`, `\\`, "ü", `\n`, `{"a": [`, "}", `],`}
		var s strings.Builder
		for n := r.IntN([]int{3, 40, 900}[r.IntN(3)]); n > 0; n-- {
			s.WriteString(strings.ReplaceAll(pieces[r.IntN(len(pieces))], `{"`, `{\"`))
		}
		return `"` + strings.ReplaceAll(s.String(), `a":`, `a\":`) + `"`
	}
	space := []string{"", "", " ", "\n\t"}[r.IntN(4)]
	switch kind := r.IntN(10); {
	case depth > 0 && kind < 3:
		all := make([]string, r.IntN(8))
		for i := range all {
			all[i] = space + randomValue(r, depth-1)
		}
		return "[" + strings.Join(all, space+",") + space + "]"
	case depth > 0 && kind < 6:
		all := make([]string, r.IntN(8))
		for i := range all {
			all[i] = space + text() + ":" + space + randomValue(r, depth-1)
		}
		return "{" + strings.Join(all, space+",") + space + "}"
	case kind == 7:
		return []string{"12", "-0.5e3", "true", "null"}[r.IntN(4)]
	}
	return text()
}

func TestWalksOfALargeDocumentSeeWhatIsThere(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	noted, recorded, tooMany := 0, 0, 0
	for i := range 60 {
		var b bytes.Buffer
		b.WriteString(" {")
		for m := 0; m < 3 || b.Len() < largeDoc; m++ {
			fmt.Fprintf(&b, `"m%d":%s, `, m, randomValue(r, 4))
		}
		if i%3 == 0 { // too many values
			fmt.Fprintf(&b, `"dense":[%s0], `, strings.Repeat("1,", b.Len()/bytesPerPlace))
		}
		b.WriteString(`"last":1}`)
		differs(t, b.Bytes())
		if d, err := Scan(b.Bytes()); err == nil && d.parser != nil {
			noted += len(d.parser.long)
			if len(d.parser.places) > 0 {
				recorded++
			} else {
				tooMany++
			}
		}
	}
	if noted < 60 || recorded < 10 || tooMany < 10 {
		t.Errorf("%d long strings were noted, %d documents had their values recorded and %d did not", noted, recorded, tooMany)
	}
}

// BenchmarkWalkLarge finds the end of each message of about 1 MB.
func BenchmarkWalkLarge(b *testing.B) {
	turn := `{"role":"user","content":"` + strings.Repeat(`The order \"4711\" left the warehouse; `, 50) + `"},`
	d, err := Scan([]byte(`{"messages":[` + strings.Repeat(turn, 1_000_000/len(turn)) + `0]}`))
	if err != nil {
		b.Fatal(err)
	}
	v := d.Get("messages")
	for name, v := range map[string]Value{"noted": v, "read": {Raw: v.Raw, At: v.At}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, m := range v.Each {
					if !m.Get("role").Exists() {
						break
					}
				}
			}
		})
	}
}
