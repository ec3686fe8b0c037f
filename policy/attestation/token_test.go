package attestation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func testToken(n int) *Token {
	return &Token{
		At: signedAt.UnixMilli(), RequestID: fmt.Sprintf("req_%d", n), GolemID: "g \"1\"", Tick: int64(n), TaskClass: "trade", Provider: "venice", Model: "m-tee",
		Measurement: testReceipt().Measurement, Nonce: expected().Nonce, Hash: expected().ResponseHash, Receipt: testReceipt().Header(),
	}
}

// filled returns a book with some tokens, of which the last is void, and its export.
func filled(t *testing.T, tokens int) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens.db")
	b, err := OpenBook(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for n := range tokens {
		k := testToken(n)
		if n == tokens-1 {
			k.Void = string(BadSchema)
		}
		if err := b.Add(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	return path, export(t, path, 1)
}

func export(t *testing.T, path string, from int64) string {
	t.Helper()
	b, err := OpenBook(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	var out bytes.Buffer
	if err := b.Export(t.Context(), from, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestP05TokensAreAChain(t *testing.T) {
	t.Parallel()
	path, text := filled(t, 4)
	r, err := Check(testPolicy(t), strings.NewReader(text))
	if err != nil || r.Tokens != 4 || r.Valid != 3 || r.Void != 1 || r.First != 1 || len(r.Faults) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if part, err := Check(testPolicy(t), strings.NewReader(export(t, path, 3))); err != nil || part.Tokens != 2 || part.First != 3 || len(part.Faults) != 0 || part.Head != r.Head {
		t.Errorf("a part: %+v, %v", part, err)
	}
	b, err := OpenBook(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for _, change := range []string{`UPDATE token SET hash = 'x'`, `DELETE FROM token`} {
		if _, err := b.db.ExecContext(t.Context(), change); err == nil {
			t.Errorf("%s was possible", change)
		}
	}
	k := testToken(9)
	if err := b.Add(t.Context(), k); err != nil || k.Seq != 5 || k.Prev != r.Head {
		t.Errorf("behind a restart: %+v, %v", k, err)
	}
}

// TestP05ALaterTokenVoidsAnEarlierOne of the same answer, and of no other.
func TestP05ALaterTokenVoidsAnEarlierOne(t *testing.T) {
	t.Parallel()
	b, err := OpenBook(filepath.Join(t.TempDir(), "tokens.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	again := testToken(1)
	again.Void = string(Unsent)
	for _, k := range []*Token{testToken(1), testToken(2), again} {
		if err := b.Add(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := b.Export(t.Context(), 1, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(out.String(), "\n")
	r, err := Check(testPolicy(t), &out)
	if err != nil || r.Tokens != 3 || r.Valid != 1 || r.Void != 2 || len(r.Faults) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	list, err := b.Latest(t.Context(), 9)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i, want := range []bool{false, true, false} {
		if got := list[i].Holds(testPolicy(t)); got != want {
			t.Errorf("token %d holds: %v", list[i].Seq, got)
		}
	}
	forged := lines[0] + lines[1] + strings.Replace(lines[2], `"void":"unsent"`, `"void":""`, 1)
	if r, err := Check(testPolicy(t), strings.NewReader(forged)); err != nil || len(r.Faults) == 0 {
		t.Errorf("a void token that was changed: %+v, %v", r, err)
	}
}

// Any changed, removed, inserted or moved token is found, except at the end of the chain: the head is for that.
func TestP05EachChangeOfAChainShows(t *testing.T) {
	t.Parallel()
	_, text := filled(t, 4)
	lines := strings.SplitAfter(text, "\n")
	for about, changed := range map[string]string{
		"a class":           strings.Replace(text, `"trade"`, `"plan"`, 1),
		"a tick":            strings.Replace(text, `"tick":2`, `"tick":7`, 1),
		"a void token":      strings.Replace(text, `"void":"schema"`, `"void":""`, 1),
		"a valid token":     strings.Replace(text, `"void":""`, `"void":"schema"`, 1),
		"one is missing":    lines[0] + lines[2] + lines[3],
		"another order":     lines[1] + lines[0] + lines[2] + lines[3],
		"one comes twice":   lines[0] + lines[0] + lines[1] + lines[2] + lines[3],
		"a number":          strings.Replace(text, `"seq":4`, `"seq":5`, 1),
		"a receipt":         strings.Replace(text, `"receipt":"ey`, `"receipt":"AA`, 1),
		"the first is gone": strings.Replace(lines[1], `"seq":2`, `"seq":1`, 1),
	} {
		r, err := Check(testPolicy(t), strings.NewReader(changed))
		if err != nil || len(r.Faults) == 0 {
			t.Errorf("%s: %+v, %v", about, r, err)
		}
	}
	whole, _ := Check(testPolicy(t), strings.NewReader(text))
	cut, err := Check(testPolicy(t), strings.NewReader(lines[0]+lines[1]))
	if err != nil || len(cut.Faults) != 0 || cut.Head == whole.Head {
		t.Errorf("a cut at the end: %+v, %v", cut, err)
	}
	for _, no := range []string{"x", "{} {}", `{"seq":1,"more":2}`, strings.Repeat("a", maxLine+1)} {
		if r, err := Check(testPolicy(t), strings.NewReader(no)); err == nil {
			t.Errorf("%.20q: %+v", no, r)
		}
	}
	other, _ := NewPolicy(nil, nil)
	if r, err := Check(other, strings.NewReader(strings.Repeat(text, 200))); err != nil || len(r.Faults) != maxFaults || r.Valid+r.Void != 0 {
		t.Errorf("without keys, %d tokens have %d faults, %v", r.Tokens, len(r.Faults), err)
	}
}

func TestTokensOfConcurrentRequestsAreOneChain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.db")
	b, err := OpenBook(path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if err := b.Add(context.WithoutCancel(t.Context()), testToken(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Check(testPolicy(t), strings.NewReader(export(t, path, 1)))
	if err != nil || r.Valid != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestABookWithoutTokensHasNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.db")
	if text := export(t, path, 1); text != "" {
		t.Errorf("exported %q", text)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
	b, err := OpenBook(filepath.Join(path, "nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Add(t.Context(), testToken(1)); err == nil {
		t.Error("a token was stored nowhere")
	}
}
