package tokens

import (
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/modeltest"
)

func TestO200kIsWhole(t *testing.T) {
	if n := len(ranks()); n != size {
		t.Errorf("%d tokens", n)
	}
}

// The reference is tiktoken with the same vocabulary.
func TestO200kGivesTheReferencesTokens(t *testing.T) {
	ref, n := modeltest.ReadReference(t, "testdata/reference.json.gz"), 0
	ref.Each(t, func(text string, want []int32) {
		n++
		got, pieces := Encode(text)
		if !slices.Equal(got, want) || Count(text) != len(want) || strings.Join(pieces, "") != text {
			t.Errorf("%q\n got %v\nwant %v", text, got, want)
		}
	})
	if n < 3000 {
		t.Errorf("only %d texts", n)
	}
}

func TestModelsWithO200k(t *testing.T) {
	for model, want := range map[string]bool{
		"gpt-4o": true, "gpt-4o-mini": true, "gpt-4.1": true, "gpt-5.1-codex": true, "chatgpt-4o-latest": true, "o1": true, "o3-mini": true, "ft:gpt-4o:org": true,
		"openai/gpt-5": true, "gpt-oss-120b": true, "gpt-4": false, "gpt-4-turbo": false, "gpt-3.5-turbo": false, "claude-sonnet-4-5": false, "": false, "olmo": false, "o": false,
	} {
		if Uses(model) != want {
			t.Errorf("%s: %v", model, !want)
		}
	}
}

func TestModelsWhoseVocabularyIsPublished(t *testing.T) {
	for model, want := range map[string]bool{
		"gpt-4o": true, "gpt-4o-mini": true, "gpt-4.1-nano": true, "gpt-5.1-codex": true, "gpt-5": true, "chatgpt-4o-latest": true, "o1": true, "o3-mini": true,
		"o4-mini": true, "ft:gpt-4o:org": true, "openai/gpt-5": true, "direct/openai/gpt-5": true, "gpt-oss-120b": true, "openai/gpt-oss-20b": true,
		"gpt-6": false, "gpt-image-1": false, "gpt-4": false, "gpt-4-turbo": false, "gpt-3.5-turbo": false, "o5": false, "o1x": false, "ft:gpt-4.1:org": false, "other/gpt-4o": false,
		"claude-sonnet-4-5": false, "": false, "openai/": false, "notopenai/gpt-5": false,
	} {
		if Published(model) != want {
			t.Errorf("%s: %v", model, !want)
		}
		if want && !Uses(model) {
			t.Errorf("%s is not counted with the vocabulary", model)
		}
	}
	for _, name := range Families() {
		if !Published(name) {
			t.Errorf("%s is a family, and not published", name)
		}
	}
}

func TestCountingTakesTimeInProportion(t *testing.T) {
	ranks()
	for _, unit := range []string{"a", " ", "\n", "ab", "é", "中", ".", "1", "\u0301", "\xff", "the quick brown "} {
		took := func(n int) time.Duration {
			text, best := strings.Repeat(unit, n/len(unit)), time.Hour
			for range 3 {
				begin := time.Now()
				Count(text)
				best = min(best, time.Since(begin))
			}
			return best
		}
		if small, large := took(20_000), took(400_000); large > 100*small+100*time.Millisecond {
			t.Errorf("%q: %s for 20 kB, %s for 400 kB", unit, small, large)
		}
	}
}

func FuzzCount(f *testing.F) {
	f.Add("Don't SHOUT\r\n\t 12345 x/y")
	f.Add("\xff\x00'ſ ")
	f.Fuzz(func(t *testing.T, text string) {
		if n := Count(text); n > len(text) || n == 0 && text != "" {
			t.Errorf("%d tokens of %d bytes", n, len(text))
		}
	})
}

func BenchmarkCount(b *testing.B) {
	text := strings.Repeat("How do I add liquidity to a Uniswap v3 pool on Arbitrum, and what are the fees? ", 128)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	Count(text)
	for b.Loop() {
		Count(text)
	}
}
