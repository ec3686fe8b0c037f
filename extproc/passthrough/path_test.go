package passthrough

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
)

func TestPathsOfStoredResources(t *testing.T) {
	for _, row := range []struct {
		path string
		want Path
		ok   bool // it is one
		well bool // it may be sent on
	}{
		{"/v1/files", Path{"/v1/files", "", ""}, true, true},
		{"/v1/files/file-1", Path{"/v1/files", "file-1", ""}, true, true},
		{"/v1/files/file-1/content", Path{"/v1/files", "file-1", "content"}, true, true},
		{"/v1/conversations/c/items/i", Path{"/v1/conversations", "c", "items/i"}, true, true},
		{"/v1/messages/batches/b/results", Path{"/v1/messages/batches", "b", "results"}, true, true},
		{"/v1/conversations/c/items/i/more", Path{"/v1/conversations", "c", "items/i/more"}, true, false},
		{"/v1/files/..", Path{"/v1/files", "..", ""}, true, false},
		{"/v1/files/a/..", Path{"/v1/files", "a", ".."}, true, false},
		{"/v1/files//content", Path{"/v1/files", "", "content"}, true, false},
		{"/v1/files/%2e%2e", Path{"/v1/files", "%2e%2e", ""}, true, false},
		{"/v1/files/a?b", Path{"/v1/files", "a?b", ""}, true, false},
		{"/v1/files/" + strings.Repeat("a", 257), Path{"/v1/files", strings.Repeat("a", 257), ""}, true, false},
		{"/v1/filesystem", Path{}, false, false},
		{"/v1/messages", Path{}, false, false},
	} {
		got, ok := ParsePath(row.path)
		if ok != row.ok || got != row.want {
			t.Errorf("%.60s: %+v, %v", row.path, got, ok)
		}
		if ok && got.WellFormed() != row.well {
			t.Errorf("%.60s may be sent on: %v", row.path, got.WellFormed())
		}
	}
}

func TestVendorOfAPath(t *testing.T) {
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
		k, _ := ParsePath(row.path)
		if got := k.vendor(row.hd); string(got) != row.want {
			t.Errorf("%s is of %s", row.path, got)
		}
	}
}

// Any path that is forwarded stays below its collection.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/v1/files/a/content", "/v1/batches/../models", "/v1/responses/%2e%2e/x", "/v1/files/a/./b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		k, ok := ParsePath(path)
		if !ok || !k.WellFormed() {
			return
		}
		sent := k.String()
		if again, ok := ParsePath(sent); !ok || again != k || strings.Contains(sent+"/", "/../") || strings.Contains(sent, "//") || strings.ContainsAny(sent, "%?#\\ ") {
			t.Errorf("%q is sent on as %q", path, sent)
		}
	})
}
