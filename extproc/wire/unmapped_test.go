package wire_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

func TestUnknownMembersAreNamedOnceUnlessEmpty(t *testing.T) {
	tests := []struct {
		object string
		want   []string
	}{
		{`{}`, nil},
		{`{"known":1,"bardo":"static"}`, nil},
		{`{"a":null,"b":false,"c":"","d":[ ],"e":{ }}`, nil},
		{`{"a":0,"b":true,"c":" ","d":[null],"e":{"x":null}}`, []string{"a", "b", "c", "d", "e"}},
		{`{"a":1,"a":2,"\u0062":1}`, []string{"a", "b"}},
		{`[1]`, nil},
	}
	for _, tt := range tests {
		var c chat.Conversation
		wire.UnmapUnknown(&c, jsonx.Value{Raw: jsonx.Raw(tt.object)}, "known")
		if !slices.Equal(c.Unmapped, tt.want) {
			t.Errorf("%s names %v, want %v", tt.object, c.Unmapped, tt.want)
		}
	}
}

// TestToldNamesAreDocumented: a name that the client chose is replaced by one constant, once, whatever the name is.
func TestToldNamesAreDocumented(t *testing.T) {
	c := &chat.Conversation{}
	for _, name := range []string{"logprobs", "my secret", "mine", "search_result"} {
		wire.Unmap(c, name)
	}
	wire.NoteUndocumented(c, jsonx.NewForm("logprobs"), "search_result")
	if want := []string{"my secret", "mine"}; !slices.Equal(c.Strange, want) {
		t.Errorf("strange are %q, want %q", c.Strange, want)
	}
	got := wire.RedactNames([]string{"logprobs", "my secret", "privacy", "mine", "search_result"}, nil, c.Strange)
	if want := []string{"logprobs", wire.UnknownMember, "privacy", "search_result"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
