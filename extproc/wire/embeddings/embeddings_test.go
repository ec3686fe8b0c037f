package embeddings_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

func decode(body string) (*chat.Request, error) {
	return embeddings.Dialect{}.Decode(chat.Embed, nil, "", []byte(body))
}

// TestD84TheInputOfEmbeddingsIsBounded: an input never has more tokens than its bound, which is not many times more.
func TestD84TheInputOfEmbeddingsIsBounded(t *testing.T) {
	for _, row := range []struct {
		about, input string
		tokens       int64 // maximum number of tokens of a tokenizer
	}{
		{"a text", `"` + strings.Repeat("ab", 1000) + `"`, 1000},
		{"texts of a letter, each within two tokens of its model", "[" + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + "]", 3000},
		{"tokens of one digit", "[" + strings.TrimSuffix(strings.Repeat("7,", 1000), ",") + "]", 1002},
		{"tokens of six digits", "[" + strings.TrimSuffix(strings.Repeat("100257,", 1000), ",") + "]", 1002},
		{"lists of a token", "[" + strings.TrimSuffix(strings.Repeat("[7],", 1000), ",") + "]", 3000},
	} {
		r, err := decode(`{"model":"m","input":` + row.input + `}`)
		if err != nil {
			t.Fatal(err)
		}
		if r.MaxInput < row.tokens || r.MaxInput > row.tokens*3/2+100 || r.InputTokens > r.MaxInput {
			t.Errorf("%s: bound %d, estimate %d, of %d tokens", row.about, r.MaxInput, r.InputTokens, row.tokens)
		}
	}
}

func TestAnAnswerWithoutDataIsAnError(t *testing.T) {
	h := header.List{{Name: "content-type", Value: "application/json"}}
	for body, want := range map[string]string{
		`{"object":"list","data":[],"usage":{"prompt_tokens":1}}`: "",
		`{"object":"list"}`: "empty",
		`{"error":{"message":"no","type":"server_error"}}`: "server_error",
		``:   "invalid_response",
		`[]`: "empty",
	} {
		events := embeddings.NewDecoder(&chat.Request{Dialect: chat.Embeddings}, http.StatusOK, h).Decode([]byte(body), true)
		last := events[len(events)-1]
		if want == "" && last.Kind == chat.End {
			continue
		}
		if last.Kind != chat.Error || last.Err.Type != want {
			t.Errorf("%s: ends in %+v, want %q", body, last, want)
		}
	}
}

// TestTheProvidersLastUsageCounts, if the usage has only the total as well.
func TestTheProvidersLastUsageCounts(t *testing.T) {
	for usage, want := range map[string]int64{
		`{"prompt_tokens":7,"total_tokens":7}`: 7, `{"total_tokens":9}`: 9, `{"prompt_tokens":0,"total_tokens":4}`: 4, `{"prompt_tokens":3,"total_tokens":9}`: 3,
		`{"total_tokens":3,"total_tokens":9,"total_tokens":4}`: 9, `{"prompt_tokens":null,"total_tokens":9}`: 9, `{}`: 0, `{"total_tokens":null}`: 0,
		`{"total_tokens":"9"}`: 0, `{"total_tokens":-9}`: 0, `{"total_tokens":9.5}`: 9, `{"prompt_tokens":"7","total_tokens":1e300}`: 1 << 53,
	} {
		d := embeddings.NewDecoder(&chat.Request{Dialect: chat.Embeddings}, http.StatusOK, nil)
		var got chat.Usage
		for _, ev := range d.Decode([]byte(`{"data":[],"usage":`+usage+`}`), true) {
			if ev.Kind == chat.UsageInfo {
				got = ev.Usage
			}
		}
		if got != (chat.Usage{Input: want, Final: true}) {
			t.Errorf("%s is %+v", usage, got)
		}
	}
}

// FuzzAnAnswerPassesUnchanged: wherever the body is cut, the client gets its bytes, with its own name of the model.
func FuzzAnAnswerPassesUnchanged(f *testing.F) {
	f.Add([]byte(`{"data":[{"embedding":[0.1]}], "model" : "m","usage":{"total_tokens":7}}`), 9)
	f.Add([]byte(`{"model":"a\u0062","data":[]}`), 0)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		cut = max(0, min(cut, len(body)))
		d := embeddings.NewDecoder(&chat.Request{Dialect: chat.Embeddings}, http.StatusOK, nil)
		same, renamed := embeddings.Dialect{}.NewEncoder(wire.Options{}), embeddings.Dialect{}.NewEncoder(wire.Options{Model: "mine"})
		var out, other []byte
		first := slices.Clone(d.Decode(body[:cut], false))
		for _, ev := range append(first, d.Decode(body[cut:], true)...) {
			if ev.Kind == chat.Error {
				return
			}
			out, other = same.Append(out, &ev), renamed.Append(other, &ev)
		}
		if !bytes.Equal(out, body) {
			t.Errorf("%q became %q", body, out)
		}
		if !json.Valid(other) {
			t.Errorf("%q became %q", body, other)
		}
	})
}

func FuzzAnyBodyIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[1,2],"bardo":{}}`))
	f.Add([]byte(`{"model":"m","input":[[1],"a",{"content":[{"type":"image_url"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decode(string(body))
		if err != nil {
			if _, ok := errors.AsType[*fault.Fault](err); !ok {
				t.Errorf("%q: %v is no fault", body, err)
			}
			return
		}
		if out := r.Edit.AppendTo(nil, &r.Doc); !json.Valid(out) || r.MaxInput < 0 || r.InputTokens < 0 {
			t.Errorf("%q became %q, of %d tokens at most", body, out, r.MaxInput)
		}
	})
}
