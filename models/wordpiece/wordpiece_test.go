package wordpiece

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/proctest"
)

func load(tb testing.TB) *Tokenizer {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(modeltest.Dir(tb), "all-minilm-l6-v2.tokenizer.json"))
	if err != nil {
		tb.Fatal(err)
	}
	t, err := Read(b)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// framed returns a text's tokens as in the reference.
func framed(t *Tokenizer, text string) []int32 {
	before, after := t.Frame()
	return append(append([]int32{before}, t.Encode(text, 0)...), after)
}

func TestWordPieceGivesTheReferencesTokens(t *testing.T) {
	tok, ref, n := load(t), modeltest.ReadReference(t, "testdata/reference.json.gz"), 0
	ref.Each(t, func(text string, want []int32) {
		n++
		if got := framed(tok, text); !slices.Equal(got, want) {
			t.Errorf("%q\n got %v\nwant %v", text, got, want)
		}
	})
	if n < 3000 {
		t.Errorf("only %d texts", n)
	}
}

func TestWordPieceTreatsEveryCharacterAsTheReferenceDoes(t *testing.T) {
	tok, ref := load(t), modeltest.ReadReference(t, "testdata/reference.json.gz")
	for _, block := range ref.Different(t, func(s string) []int32 { return framed(tok, s) }) {
		t.Errorf("characters U+%04X to U+%04X", block*256, block*256+255)
	}
}

func TestALimitCutsTheTokensAndNothingElse(t *testing.T) {
	tok := load(t)
	text := strings.Repeat("an unaffable [SEP] sentence 中文, ", 400)
	all := tok.Encode(text, 0)
	for _, n := range []int{1, 2, 7, 64, 1000, len(all), len(all) + 1} {
		if got := tok.Encode(text, n); !slices.Equal(got, all[:min(n, len(all))]) {
			t.Errorf("the first %d tokens are others", n)
		}
	}
}

func TestATokenizerOfAnotherFormIsRefused(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(modeltest.Dir(t), "all-minilm-l6-v2.tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`"lowercase":true`, `"lowercase":false`},
		{`"BertPreTokenizer"`, `"Whitespace"`},
		{`"type":"WordPiece","unk_token"`, `"type":"BPE","unk_token"`},
		{`"TemplateProcessing"`, `"ByteLevel"`},
		{`"[UNK]":100`, `"[UNC]":100`},
		{`"single_word":false`, `"single_word":true`},
	} {
		flat := strings.NewReplacer(": ", ":", ", ", ",", "\n", "", "  ", "").Replace(string(b))
		if !strings.Contains(flat, c[0]) {
			t.Fatalf("the file has no %s", c[0])
		}
		if _, err := Read([]byte(strings.ReplaceAll(flat, c[0], c[1]))); err == nil {
			t.Errorf("%s was accepted", c[1])
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"model":{"type":"WordPiece"}}`} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Twenty times the text takes about twenty times as long, for any content. The limit is wide: other programs run beside the test.
func TestWordPieceTakesTimeInProportion(t *testing.T) {
	tok := load(t)
	for _, unit := range []string{"a", "[", "[SEP]", "[SE", "é", "\u0301", "中", ".", " ", "aaaaaaaaaa ", "##"} {
		took := func(n int) time.Duration {
			text, best := strings.Repeat(unit, n/len(unit)), time.Hour
			for range 3 {
				best = min(best, proctest.CPUTime(t, func() { tok.Encode(text, 0) }))
			}
			return best
		}
		if small, large := took(20_000), took(400_000); large > 100*small+50*time.Millisecond {
			t.Errorf("%q: %s for 20 kB, %s for 400 kB", unit, small, large)
		}
	}
}

func FuzzWordPiece(f *testing.F) {
	tok := load(f)
	f.Add("a [SEP] b", 3)
	f.Add("\xff\x00é中", 0)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit %= 64
		ids := tok.Encode(text, limit)
		if limit > 0 && len(ids) > limit || len(ids) > len(text)*4 {
			t.Errorf("%d tokens of %d bytes", len(ids), len(text))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := load(b)
	text := strings.Repeat("How do I add liquidity to a Uniswap v3 pool on Arbitrum, and what are the fees? ", 6)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(text, 0)
	}
}
