package extproc

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

func TestPathsOfWhatIsKept(t *testing.T) {
	for _, row := range []struct {
		path string
		want keptPath
		ok   bool // it is one
		well bool // it may be sent on
	}{
		{"/v1/files", keptPath{"/v1/files", "", ""}, true, true},
		{"/v1/files/file-1", keptPath{"/v1/files", "file-1", ""}, true, true},
		{"/v1/files/file-1/content", keptPath{"/v1/files", "file-1", "content"}, true, true},
		{"/v1/conversations/c/items/i", keptPath{"/v1/conversations", "c", "items/i"}, true, true},
		{"/v1/messages/batches/b/results", keptPath{"/v1/messages/batches", "b", "results"}, true, true},
		{"/v1/conversations/c/items/i/more", keptPath{"/v1/conversations", "c", "items/i/more"}, true, false},
		{"/v1/files/..", keptPath{"/v1/files", "..", ""}, true, false},
		{"/v1/files/a/..", keptPath{"/v1/files", "a", ".."}, true, false},
		{"/v1/files//content", keptPath{"/v1/files", "", "content"}, true, false},
		{"/v1/files/%2e%2e", keptPath{"/v1/files", "%2e%2e", ""}, true, false},
		{"/v1/files/a?b", keptPath{"/v1/files", "a?b", ""}, true, false},
		{"/v1/files/" + strings.Repeat("a", 257), keptPath{"/v1/files", strings.Repeat("a", 257), ""}, true, false},
		{"/v1/filesystem", keptPath{}, false, false},
		{"/v1/messages", keptPath{}, false, false},
	} {
		got, ok := readKept(row.path)
		if ok != row.ok || got != row.want {
			t.Errorf("%.60s: %+v, %v", row.path, got, ok)
		}
		if ok && got.wellFormed() != row.well {
			t.Errorf("%.60s may be sent on: %v", row.path, got.wellFormed())
		}
	}
}

func TestWhoseAPIAKeptPathIsOf(t *testing.T) {
	anthropic := stream.Head{Header: header.List{{Name: "anthropic-version", Value: "2023-06-01"}}}
	for _, row := range []struct {
		path string
		hd   *stream.Head
		want string
	}{
		{"/v1/files", &stream.Head{}, "openai"},
		{"/v1/files", &anthropic, "anthropic"},
		{"/v1/batches", &anthropic, "openai"},
		{"/v1/messages/batches/b", &stream.Head{}, "anthropic"},
		{"/v1/responses/r", &stream.Head{}, "openai"},
		{"/v1beta/cachedContents/c", &stream.Head{}, "google"},
	} {
		k, _ := readKept(row.path)
		if got := k.vendor(row.hd); string(got) != row.want {
			t.Errorf("%s is of %s", row.path, got)
		}
	}
}

func TestMethodsOfWhatIsKept(t *testing.T) {
	for _, row := range []struct {
		method, path string
		class        class
		ok           bool
	}{
		{http.MethodGet, "/v1/files", classLookup, true},
		{http.MethodPost, "/v1/files", classGenerate, true},
		{http.MethodDelete, "/v1/responses/r", classGenerate, true},
		{http.MethodPut, "/v1/files", 0, false},
		{http.MethodPost, "/v1/responses", 0, false}, // a generation
	} {
		if e, ok := findKept(row.method, row.path); ok != row.ok || ok && (e.class != row.class || !e.kept) {
			t.Errorf("%s %s: %+v, %v", row.method, row.path, e, ok)
		}
	}
}

// What may be sent on stays below its collection, whatever the path.
func FuzzKeptPath(f *testing.F) {
	for _, seed := range []string{"/v1/files/a/content", "/v1/batches/../models", "/v1/responses/%2e%2e/x", "/v1/files/a/./b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		k, ok := readKept(path)
		if !ok || !k.wellFormed() {
			return
		}
		sent := k.String()
		if again, ok := readKept(sent); !ok || again != k || strings.Contains(sent+"/", "/../") || strings.Contains(sent, "//") || strings.ContainsAny(sent, "%?#\\ ") {
			t.Errorf("%q is sent on as %q", path, sent)
		}
	})
}
