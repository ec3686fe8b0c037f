package pii_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
)

// TestF05TextsThatAreKeptAreMasked: whatever the layer's mode; in JSON with escapes, and by the names of members; the same value has the same placeholder as in
// requests; other accounts have other placeholders.
func TestF05TextsThatAreKeptAreMasked(t *testing.T) {
	t.Parallel()
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	texts := []string{
		"write to a@example.com", `{"to":"a\u0040example.com","n":[1,"call b@example.com"],"ok":true}`, `{"private_key":"0x` + key + `"}`, "the key is 0x" + key, "nothing", "", "{broken a@example.com",
	}
	for _, m := range []layer.Mode{"", layer.Off, layer.Detect, layer.Mask, layer.Block} {
		got := slices.Clone(texts)
		if err := newLayer(m).Redact(t.Context(), "a", got); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(got, "\n")
		mail := strings.TrimPrefix(got[0], "write to ")
		if strings.Contains(all, "example.com") || strings.Contains(all, key) || !strings.HasPrefix(mail, "<EMAIL_") || strings.Count(all, mail) != 3 || got[4] != "nothing" || got[5] != "" ||
			!strings.HasPrefix(got[1], `{"to":"`+mail+`","n":[1,"call <EMAIL_`) || !strings.HasSuffix(got[1], `>"],"ok":true}`) {
			t.Errorf("%s: %s", m, all)
		}
		x := exchange(t, `{"role":"user","content":"write to a@example.com"}`)
		if err := run(t, newLayer(layer.Mask), x); err != nil || !strings.Contains(string(x.Request.Doc.Bytes), mail) {
			t.Errorf("requests have another placeholder than %s: %s", mail, x.Request.Doc.Bytes)
		}
		other := []string{texts[0]}
		if err := newLayer(m).Redact(t.Context(), "b", other); err != nil || other[0] == got[0] {
			t.Errorf("%s: another account: %s, %v", m, other[0], err)
		}
	}
}

// found finds a name, or fails.
type found struct {
	name string
	err  error
}

func (f found) Find(_ context.Context, text string, out []pii.Span) ([]pii.Span, error) {
	if i := strings.Index(text, f.name); i >= 0 {
		out = append(out, pii.Span{Start: i, End: i + len(f.name), Type: pii.Person, Confidence: 1})
	}
	return out, f.err
}

// TestF05NamesAreMaskedInWhatIsKept, and if the model that finds them fails, nothing is logged, whatever is sent.
func TestF05NamesAreMaskedInWhatIsKept(t *testing.T) {
	t.Parallel()
	l := newLayer(layer.Detect)
	l.Names = layer.Names{Finder: pii.NewMemo(pii.NewScanner(found{name: "Alice Miller"})), Allow: true}
	texts := []string{"Alice Miller has a@example.com"}
	if err := l.Redact(t.Context(), "a", texts); err != nil || strings.Contains(texts[0], "Alice") || strings.Contains(texts[0], "@") {
		t.Errorf("%q, %v", texts, err)
	}
	l.Names.Finder = pii.NewMemo(pii.NewScanner(found{name: "-", err: errors.New("the model is busy")}))
	if err := l.Redact(t.Context(), "a", []string{"Alice Miller has nothing"}); err == nil {
		t.Error("what nobody has looked into may be kept")
	}
}

// TestF05TooManyValuesAreNotKept: texts that cannot be masked in bounded time are an error.
func TestF05TooManyValuesAreNotKept(t *testing.T) {
	t.Parallel()
	if err := newLayer(layer.Detect).Redact(t.Context(), "a", []string{manyAlike()}); err == nil {
		t.Error("texts whose values were not all looked for may be kept")
	}
}
