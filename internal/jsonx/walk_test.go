package jsonx_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// recorder records a walk. It does not enter members whose name begins with "skip".
type recorder struct{ b strings.Builder }

func (r *recorder) Enter(at jsonx.Step, kind jsonx.Kind, empty bool) bool {
	fmt.Fprintf(&r.b, "%s%d:%s empty=%v(", at.Key, at.Index, kind, empty)
	if strings.HasPrefix(string(at.Key), "skip") {
		r.b.WriteByte(')')
		return false
	}
	return true
}

func (r *recorder) Leave() { r.b.WriteByte(')') }

func (r *recorder) Scalar(at jsonx.Step, v jsonx.Value) {
	fmt.Fprintf(&r.b, "%s%d@%d=%s ", at.Key, at.Index, v.At, v.Raw)
}

func TestWalkVisitsEachValueOnceInOrder(t *testing.T) {
	const text = ` { "a" : [1, {"b":null} , [ ] ], "skip": {"c":[2]}, "\u0064": "x]" }`
	doc, err := jsonx.Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var r recorder
	doc.Root().Walk(&r)
	const want = `0:an object empty=false(a0:an array empty=false(0@10=1 1:an object empty=false(b0@18=null )2:an array empty=true())skip1:an object empty=false()d2@62="x]" )`
	if got := r.b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestWalkReadsADeepTextOnce: time grows with the text, not with the text times its depth.
func TestWalkReadsADeepTextOnce(t *testing.T) {
	const deep = jsonx.MaxDepth - 2
	text := `{"a":` + strings.Repeat("[", deep) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", deep) + `}`
	doc, err := jsonx.Scan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	n := counter{}
	doc.Root().Walk(&n)
	if n.entered != deep+1 || n.left != n.entered || n.scalars != 1 {
		t.Errorf("%+v", n)
	}
}

type counter struct{ entered, left, scalars int }

func (c *counter) Enter(jsonx.Step, jsonx.Kind, bool) bool { c.entered++; return true }
func (c *counter) Leave()                                  { c.left++ }
func (c *counter) Scalar(jsonx.Step, jsonx.Value)          { c.scalars++ }

func FuzzWalk(f *testing.F) {
	for _, seed := range []string{`{"a":[{"b":1}],"c":{}}`, `{"a":[[[]]],"b":"\"}"}`, `{"":{"\ud800":[0,-1e9]}}`, `[1,`, `{"a"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := counter{}
		jsonx.Value{Raw: text}.Walk(&n) // terminates on any bytes
		v, err := jsonx.Parse(text)
		if err != nil {
			return
		}
		n = counter{}
		v.Walk(&n)
		if n.entered != n.left {
			t.Errorf("%s: %+v", text, n)
		}
		if n.entered+n.scalars == 0 {
			t.Errorf("%s: nothing was visited", text)
		}
	})
}

func TestKeysTellWhetherANameMayBeThere(t *testing.T) {
	for _, row := range []struct {
		text, name string
		want       bool
	}{
		{`{"messages":[{"content":[{"file":{"file_id":"x"}}]}]}`, "file_id", true},
		{`{"file_id":1}`, "file_id", true},
		{`{"a":{"FILE_Id":1}}`, "file_id", true},
		{`{"a":{"file\u005fid":1}}`, "file_id", true},
		{`{"a":{"fıle_id":1}}`, "file_id", true},
		{`{"a":"file_id"}`, "file_id", false},
		{`{"model":"m","messages":[{"role":"user","content":"file_id"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`, "file_id", false},
	} {
		doc, err := jsonx.Scan([]byte(row.text))
		if err != nil {
			t.Fatal(err)
		}
		names := jsonx.WordsOf(row.name)
		if got := doc.Stats.Keys.Meets(&names); got != row.want {
			t.Errorf("%s may have %s: %v", row.text, row.name, got)
		}
	}
}

func TestWordsTellWhetherAValueMayBeThere(t *testing.T) {
	words := jsonx.WordsOf("item_reference")
	for text, want := range map[string]bool{
		`{"input":[{"type":"item_reference"}]}`:                     true,
		`{"input":["item_reference"]}`:                              true,
		`{"input":[{"type":"item\u005freference"}]}`:                true,
		`{"input":[{"item_reference":1}]}`:                          false,
		`{"input":"an item_reference"}`:                             false,
		`{"input":[{"type":"message","role":"user","content":""}]}`: false,
	} {
		doc, err := jsonx.Scan([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.MayHoldValue(&words); got != want {
			t.Errorf("%s may have the value: %v", text, got)
		}
	}
}

// keyCollector collects the names of all members, and the short string values.
type keyCollector struct {
	counter

	names, values []string
}

func (c *keyCollector) Enter(at jsonx.Step, _ jsonx.Kind, _ bool) bool {
	c.add(at)
	return true
}

func (c *keyCollector) Scalar(at jsonx.Step, v jsonx.Value) {
	c.add(at)
	if text, ok := v.Str(); ok && text != "" && len(text) <= 32 {
		c.values = append(c.values, text)
	}
}

func (c *keyCollector) add(at jsonx.Step) {
	if at.Key != nil {
		c.names = append(c.names, string(at.Key))
	}
}

// isWord reports whether a value is one that may be looked for: letters and digits of ASCII and underscores.
func isWord(s string) bool {
	return strings.Trim(s, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// FuzzKeys: a name or value that is present is never missed.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"a":[{"file_id":1}],"F\u0049":{"é":1}}`))
	f.Add([]byte(`{"a":["x",{"type":"\u0069mage","b":"it's"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := jsonx.Scan(text)
		if err != nil {
			return
		}
		var c keyCollector
		doc.Root().Walk(&c)
		for _, name := range c.names {
			for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
				one := jsonx.WordsOf(spelled)
				if name != "" && !doc.Stats.Keys.Meets(&one) {
					t.Errorf("%q is in %s", spelled, text)
				}
			}
		}
		for _, value := range c.values {
			one := jsonx.WordsOf(value)
			if isWord(value) && !doc.MayHoldValue(&one) {
				t.Errorf("%q is a value in %s", value, text)
			}
		}
	})
}
