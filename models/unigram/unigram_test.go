package unigram

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/internal/proctest"
)

func load(tb testing.TB) *Tokenizer {
	tb.Helper()
	t, err := Read(modeltest.Unpack(tb, "testdata/tokenizer.json.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func framed(t *Tokenizer, text string) []int32 {
	before, after := t.Frame()
	return append(append([]int32{before}, t.Encode(text, 0)...), after)
}

// sum is the score of a sequence of tokens.
func (t *Tokenizer) sum(ids []int32) (sum float64) {
	for _, id := range ids {
		sum += t.scores[id]
	}
	return sum
}

// The tokenizer has the form of DeBERTa's, with sentencepiece's table of characters, and a small vocabulary.
func TestUnigramGivesTheReferencesTokens(t *testing.T) {
	tok, ref, n, equal := load(t), modeltest.ReadReference(t, "testdata/reference.json.gz"), 0, 0
	ref.Each(t, func(text string, want []int32) {
		n++
		got := framed(tok, text)
		switch {
		case slices.Equal(got, want):
		case math.Abs(tok.sum(got)-tok.sum(want)) < 1e-9 && slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))):
			equal++ // the same pieces in another order, by the rounding of equal sums: the reference reads numbers less exactly
		default:
			t.Errorf("%q\n got %v\nwant %v", text, got, want)
		}
	})
	if n < 3000 || equal > 2 {
		t.Errorf("%d texts, %d with several best ways", n, equal)
	}
}

func TestUnigramTreatsEveryCharacterAsTheReferenceDoes(t *testing.T) {
	tok, ref := load(t), modeltest.ReadReference(t, "testdata/reference.json.gz")
	for _, block := range ref.Different(t, func(s string) []int32 { return framed(tok, s) }) {
		t.Errorf("characters U+%04X to U+%04X", block*256, block*256+255)
	}
}

func TestALimitCutsTheTokensAndNothingElse(t *testing.T) {
	tok := load(t)
	text := strings.Repeat("an unaffable [SEP] sentence 中文, ", 200)
	all := tok.Encode(text, 0)
	for _, n := range []int{1, 2, 7, 64, 1000, len(all), len(all) + 1} {
		if got := tok.Encode(text, n); !slices.Equal(got, all[:min(n, len(all))]) {
			t.Errorf("the first %d tokens are others", n)
		}
	}
}

func TestATokenizerOfAnotherFormIsRefused(t *testing.T) {
	b := modeltest.Unpack(t, "testdata/tokenizer.json.gz")
	for _, c := range [][2]string{
		{`"type":"Unigram"`, `"type":"BPE"`},
		{`"byte_fallback":false`, `"byte_fallback":true`},
		{`"unk_id":3`, `"unk_id":-1`},
		{`"unk_id":3`, `"unk_id":99999`},
		{`"prepend_scheme":"always"`, `"prepend_scheme":"never"`},
		{`"type":"Strip"`, `"type":"Lowercase"`},
		{`"Regex":" {2,}"`, `"Regex":"a|b"`},
		{`"precompiled_charsmap":"`, `"precompiled_charsmap":"!`},
		{`"precompiled_charsmap":"`, `"precompiled_charsmap":"////`},
		{`"TemplateProcessing"`, `"ByteLevel"`},
	} {
		if !bytes.Contains(b, []byte(c[0])) {
			t.Fatalf("the file has no %s", c[0])
		}
		if _, err := Read(bytes.Replace(b, []byte(c[0]), []byte(c[1]), 1)); err == nil {
			t.Errorf("%s was accepted", c[1])
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Twenty times the text takes about twenty times as long, for any content. The limit is wide: other programs run beside the test.
func TestUnigramTakesTimeInProportion(t *testing.T) {
	tok := load(t)
	for _, unit := range []string{"a", "[", "[SEP]", "[UNK]", "é", "e\u0301", "\u0301", "中", "▁", " ", "the quick brown ", "👨‍👩‍👧"} {
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

func FuzzUnigram(f *testing.F) {
	tok := load(f)
	f.Add("a [SEP] b [UNK]", 3)
	f.Add("\xff\x00é中ﬁ", 0)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit %= 64
		ids := tok.Encode(text, limit)
		if limit > 0 && len(ids) > limit || len(ids) > 20*len(text)+2 {
			t.Errorf("%d tokens of %d bytes", len(ids), len(text))
		}
	})
}

// Any table of characters is read or refused, and is never read out of bounds.
func FuzzCharsmap(f *testing.F) {
	f.Add([]byte{8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 'a', 0}, "ab")
	f.Fuzz(func(_ *testing.T, table []byte, text string) {
		if c, err := readCharsmap(table); err == nil {
			_ = c.normalize(text)
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
