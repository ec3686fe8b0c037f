package localembed_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/models"
)

// counter is a model of three dimensions and a window of five tokens, which are words.
type counter struct{ err error }

func (c counter) Measure(_ context.Context, text string) (models.Vector, error) {
	n := len(strings.Fields(text)) + 2
	return models.Vector{Values: []float32{float32(n), -0.5, 1e-9}, Tokens: min(n, 5), Cut: n > 5}, c.err
}

var about = models.About{Name: "m", Dimensions: 3, Window: 5}

func parsed(tb testing.TB, body string) *jsonx.Doc {
	tb.Helper()
	doc, err := embeddings.Names.Scan([]byte(body))
	if err != nil {
		tb.Fatal(err)
	}
	return &doc
}

func TestC18AnAnswerIsInOpenAIsFormat(t *testing.T) {
	m := localembed.New(about, counter{})
	r, err := m.Parse(parsed(t, `{"model":"local/m","input":["a b","caf\u00e9"],"dimensions":3,"user":"u"}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := m.Do(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[4,-0.5,1e-09]},{"object":"embedding","index":1,"embedding":[3,-0.5,1e-09]}],` +
		`"model":"local/m","usage":{"prompt_tokens":7,"total_tokens":7}}`
	if string(a.Body) != want || a.Tokens != 7 || !json.Valid(a.Body) {
		t.Errorf("got\n%s\nwant\n%s", a.Body, want)
	}
	r, err = m.Parse(parsed(t, `{"model":"local/m","input":"a","encoding_format":"base64"}`))
	if err != nil {
		t.Fatal(err)
	}
	if a, err = m.Do(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal(a.Body, &answer); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(answer.Data[0].Embedding)
	if err != nil || len(raw) != 12 || math.Float32frombits(binary.LittleEndian.Uint32(raw[8:])) != 1e-9 {
		t.Errorf("% x, %v", raw, err)
	}
}

func TestC18WhatTheModelCannotTakeIsRefused(t *testing.T) {
	m := localembed.New(about, counter{})
	for body, want := range map[string]string{
		`{"input":"a","dimensions":2}`:           "dimensions: the vectors of local/m have 3 dimensions",
		`{"input":"a","dimensions":"3"}`:         "dimensions: the vectors of local/m have 3",
		`{"input":"a","encoding_format":"int8"}`: "encoding_format: encoding_format must be float or base64",
		`{"input":[1,2]}`:                        "input: input[0] must be a text, not a number: lists of tokens",
		`{"input":["a",[1]]}`:                    "input: input[1] must be a text, not an array",
		`{"input":["a",""]}`:                     "input: input[1] must not be empty",
		`{"input":["a"` + strings.Repeat(`,"a"`, localembed.MaxTexts) + `]}`: "input: input has more than 2048 texts",
		`{"input":["a","a b c d"]}`: "input: input[1] has more than the 5 tokens that local/m reads",
		`{"input":["a"` + strings.Repeat(`,"a"`, localembed.MaxTexts-1) + `]}`:        "",
		`{"input":"a b c","encoding_format":null,"dimensions":null,"input_type":"x"}`: "",
	} {
		r, err := m.Parse(parsed(t, body))
		if err == nil {
			_, err = m.Do(t.Context(), &r)
		}
		got := ""
		if err != nil {
			f := fault.From(err)
			got = f.Param + ": " + f.Public
			if f.Kind != fault.InvalidRequest {
				t.Errorf("%.60s: %s", body, f.Kind)
			}
		}
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%.60s: %q, want %q", body, got, want)
		}
	}
}

func TestC18AModelThatCannotAnswerSaysWhy(t *testing.T) {
	for _, row := range []struct {
		err  error
		kind fault.Kind
	}{
		{models.ErrBusy, fault.Overloaded},
		{fmt.Errorf("%w: /secret/path", models.ErrOff), fault.NoProvider},
		{context.DeadlineExceeded, fault.UpstreamTimeout},
		{errors.New("/secret/path"), fault.Internal},
	} {
		m := localembed.New(about, counter{row.err})
		_, err := m.Do(t.Context(), &localembed.Request{Texts: []string{"a"}})
		if f := fault.From(err); f.Kind != row.kind || strings.Contains(f.Public, "secret") {
			t.Errorf("%v: %s %s", row.err, f.Kind, f.Public)
		}
	}
	if localembed.New(models.About{}, counter{}) != nil {
		t.Error("a model without a name is one")
	}
}

// slow is a model that waits until it is released.
type slow struct{ entered, leave chan struct{} }

func (s slow) Measure(context.Context, string) (models.Vector, error) {
	s.entered <- struct{}{}
	<-s.leave
	return models.Vector{Values: make([]float32, 3), Tokens: 3}, nil
}

func TestC18OnlySoManyRequestsRunAtATime(t *testing.T) {
	s := slow{make(chan struct{}, 100), make(chan struct{})}
	m := localembed.New(about, s)
	const most = 8
	var running sync.WaitGroup
	ask := func() error {
		_, err := m.Do(t.Context(), &localembed.Request{Texts: []string{"a"}})
		return err
	}
	for range most {
		running.Go(func() {
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
	}
	for range most {
		<-s.entered
	}
	if f := fault.From(ask()); f.Kind != fault.Overloaded || f.RetryAfter == 0 {
		t.Errorf("one more: %s", f.Kind)
	}
	close(s.leave)
	running.Wait()
	if err := ask(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// FuzzParse: a request is refused, or its texts are within the limits.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"input":["a"],"encoding_format":"base64","dimensions":3}`))
	f.Add([]byte(`{"input":[[1]],"dimensions":1e3}`))
	m := localembed.New(about, counter{})
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := embeddings.Names.Scan(body)
		if err != nil {
			return
		}
		r, err := m.Parse(&doc)
		if err != nil {
			return
		}
		if len(r.Texts) > localembed.MaxTexts {
			t.Errorf("%d texts", len(r.Texts))
		}
		for _, text := range r.Texts {
			if text == "" {
				t.Error("an empty text")
			}
		}
	})
}
