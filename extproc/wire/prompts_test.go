package wire

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// TestPromptsAreCountedAndBounded: every prompt is counted as one in any notation, and what is not a token number counts as text.
func TestPromptsAreCountedAndBounded(t *testing.T) {
	long := strings.Repeat("1", 1000)
	for _, row := range []struct {
		input  string
		count  int
		tokens int64 // minimum number of tokens that a provider may count
		upper  int64
	}{
		{`"a"`, 1, 1, 20},
		{`["a",null,"",{"text":"b"}]`, 4, 2, 40},
		{`[1,2,3]`, 1, 3, 20},
		{`[[1,2],[3]]`, 2, 3, 30},
		{`[1,"a","b"]`, 3, 3, 40},
		{`[1,[2,3]]`, 1, 3, 30},
		{`[` + long + `]`, 2, 500, 520},
		{`[[1,` + long + `]]`, 2, 501, 530},
		{`[{"image":"https://a"}]`, 1, maxImage, maxImage + 50},
		{`[{"text":"a","sound":"https://a"}]`, 1, maxReference, maxReference + 50},
		{`[1,{"image":"https://a"}]`, 2, maxImage, maxImage + 50},
	} {
		body := []byte(`{"input":` + row.input + `}`)
		doc, err := jsonx.Scan(body)
		if err != nil {
			t.Fatal(err)
		}
		p := MeasurePrompts(doc.Get("input"))
		if got := p.Bound(MaxInputTokens(&doc)); p.Count != row.count || got < row.tokens || got > row.upper {
			t.Errorf("%.60s: %d prompts of %d tokens at most, want %d of %d to %d", row.input, p.Count, got, row.count, row.tokens, row.upper)
		}
	}
}

// TestPredictedOutputIsReserved, whether the client or its profile sets it.
func TestPredictedOutputIsReserved(t *testing.T) {
	doc, err := jsonx.Scan([]byte(`{"prediction":"` + strings.Repeat("a", 99) + `"}`)) // 101 bytes with its quotes
	if err != nil {
		t.Fatal(err)
	}
	r := &chat.Request{Doc: doc}
	if got := MaxPredictedTokens(r); got != 51 {
		t.Errorf("%d tokens of the client's", got)
	}
	r.Profile = &chat.Profile{Default: chat.Params{Predicted: strings.Repeat("b", 200)}}
	if got := MaxPredictedTokens(r); got != 151 {
		t.Errorf("%d tokens of both", got)
	}
}
