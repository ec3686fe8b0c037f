package endpoint

import (
	"errors"
	"net/http"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
)

func TestWhatIsServedNowhereIsToldWhatIs(t *testing.T) {
	const others = "; a generation goes to /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages or /v1beta/models/{model}:generateContent"
	for _, tt := range []struct {
		sentence, method, path string
		kind                   fault.Kind
		want                   string
	}{
		{"a slip of the pen", http.MethodPost, "/v1/chat/completion", fault.NotFound, "there is no endpoint POST /v1/chat/completion; did you mean /v1/chat/completions?"},
		{"an endpoint without its id", http.MethodGet, "/v1/requests", fault.NotFound, "there is no endpoint GET /v1/requests; did you mean /v1/requests/{id}?"},
		{"the old endpoint of Anthropic's", http.MethodPost, "/v1/complete", fault.NotFound, "there is no endpoint POST /v1/complete; did you mean /v1/completions?"},
		{"something else", http.MethodGet, "/favicon.ico", fault.NotFound, "there is no endpoint GET /favicon.ico" + others},
		{"what this version lacks", http.MethodPost, "/v1/videos", fault.NotFound, "this version of the gateway does not serve /v1/videos: use /v1/chat/completions, /v1/responses or /v1/messages"},
		{"what a provider keeps, by a method that it has not", http.MethodPut, "/v1/files/f", fault.MethodNotAllowed, "/v1/files/f takes GET, HEAD, POST, DELETE, not PUT"},
		{"embeddings in Google's format", http.MethodPost, "/v1beta/models/m:batchEmbedContents", fault.NotFound, "this version of the gateway does not serve :batchEmbedContents of Google's API: use /v1/embeddings"},
		{"the same in its other version", http.MethodPost, "/v1/models/m:embedContent", fault.NotFound, "this version of the gateway does not serve :embedContent of Google's API: use /v1/embeddings"},
		{"another verb of Google's", http.MethodPost, "/v1beta/models/m:predict", fault.NotFound, "this version of the gateway does not serve :predict of Google's API: use :generateContent, :streamGenerateContent, :countTokens"},
		{"a model alone", http.MethodPost, "/v1beta/models/m", fault.MethodNotAllowed, "/v1beta/models/m takes GET, HEAD, not POST"},
		{"another method", http.MethodGet, "/v1/messages", fault.MethodNotAllowed, "/v1/messages takes POST, not GET"},
	} {
		_, err := Find(&stream.Head{Method: tt.method, Path: tt.path})
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != tt.kind || f.Public != tt.want {
			t.Errorf("%s: %v, want %s %q", tt.sentence, err, tt.kind, tt.want)
		}
	}
}

func TestMethodsOfStoredResources(t *testing.T) {
	for _, row := range []struct {
		method, path string
		class        Class
		ok           bool
	}{
		{http.MethodGet, "/v1/files", Lookup, true},
		{http.MethodPost, "/v1/files", Generate, true},
		{http.MethodDelete, "/v1/responses/r", Generate, true},
		{http.MethodPut, "/v1/files", 0, false},
		{http.MethodPost, "/v1/responses", 0, false}, // a generation
	} {
		if e, ok := findStored(row.method, row.path); ok != row.ok || ok && (e.Class != row.class || !e.Stored) {
			t.Errorf("%s %s: %+v, %v", row.method, row.path, e, ok)
		}
	}
}
