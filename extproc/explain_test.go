package extproc

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/policy"
)

func TestWhatWorksKeepsItsPlace(t *testing.T) {
	for _, row := range []struct{ about, found, order, want string }{
		{"all are well", "v1 b1 o1 b2", "v b o", "v1 b1 o1 b2"},
		{"one that is down comes last, with all its models", "v1 b1 o1 b2", "v o b", "v1 o1 b1 b2"},
		{"the first is down", "v1 b1 o1 b2", "b o v", "b1 o1 b2 v1"},
		{"two are down", "v1 b1 o1 b2", "o v b", "o1 v1 b1 b2"},
		{"a disabled one is left out", "v1 b1 o1 b2", "v o", "v1 o1"},
		{"all are disabled", "v1 b1", "", ""},
		{"nobody was found", "", "", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			var found []policy.Resolution
			for f := range strings.FieldsSeq(row.found) {
				found = append(found, policy.Resolution{Provider: policy.ProviderID(f[:1]), Model: policy.ModelID(f)})
			}
			var order []policy.ProviderID
			for o := range strings.FieldsSeq(row.order) {
				order = append(order, policy.ProviderID(o))
			}
			var got []string
			for _, r := range request.ByHealth(slices.Clone(found), order) {
				got = append(got, string(r.Model))
			}
			if s := strings.Join(got, " "); s != row.want {
				t.Errorf("got %q, want %q", s, row.want)
			}
		})
	}
}
