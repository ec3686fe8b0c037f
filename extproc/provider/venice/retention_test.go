package venice

import (
	"testing"

	"bardo.money/gateway/internal/header"
)

// TestP07HeadersConfirmThatNothingIsRetained (P-07): an answer is passed on only if its headers confirm that nothing is retained.
func TestP07HeadersConfirmThatNothingIsRetained(t *testing.T) {
	level := func(v string) header.Field { return header.Field{Name: headerLevel, Value: v} }
	kept := func(v string) header.Field { return header.Field{Name: headerPolicy, Value: v} }
	const noLevel, noPolicy, otherLevel, otherPolicy = headerLevel + " is missing", headerPolicy + " is missing", headerLevel + " says otherwise", headerPolicy + " says otherwise"
	for _, row := range []struct {
		about string
		h     header.List
		want  string
	}{
		{"both as they have to be", header.List{level("private"), kept("none")}, ""},
		{"in any order, case and spacing", header.List{kept(" None "), {Name: "date", Value: "today"}, level("PRIVATE")}, ""},
		{"an enclave is more", header.List{level("tee"), kept("none")}, ""},
		{"sealed is more", header.List{level("e2e"), kept("none")}, ""},
		{"the same said twice", header.List{level("private"), kept("none"), kept("none")}, ""},
		{"nothing", nil, noLevel},
		{"no level", header.List{kept("none")}, noLevel},
		{"no policy", header.List{level("private")}, noPolicy},
		{"an empty level", header.List{level(""), kept("none")}, otherLevel},
		{"an empty policy", header.List{level("private"), kept("")}, otherPolicy},
		{"another level", header.List{level("anonymized"), kept("none")}, otherLevel},
		{"another policy", header.List{level("private"), kept("30d")}, otherPolicy},
		{"a contradiction after it", header.List{level("private"), kept("none"), kept("30d")}, otherPolicy},
		{"a contradiction before it", header.List{level("private"), kept("30d"), kept("none")}, otherPolicy},
		{"a contradiction in one line", header.List{level("private"), kept("none, 30d")}, otherPolicy},
		{"a level that contradicts itself", header.List{level("private"), level("public"), kept("none")}, otherLevel},
		{"a word around it", header.List{level("not private"), kept("none")}, otherLevel},
		{"names alone are not compared in part", header.List{{Name: headerLevel + "x", Value: "private"}, kept("none")}, noLevel},
	} {
		if got := (Adapter{}).Retains(row.h); got != row.want {
			t.Errorf("%s: %q, want %q", row.about, got, row.want)
		}
	}
}

// FuzzReasonsQuoteNoHeader: the reason quotes no header value.
func FuzzReasonsQuoteNoHeader(f *testing.F) {
	f.Add("private", "none")
	f.Add("marker-of-content", "none\x00")
	f.Fuzz(func(t *testing.T, level, policy string) {
		switch why := (Adapter{}).Retains(header.List{{Name: headerLevel, Value: level}, {Name: headerPolicy, Value: policy}}); why {
		case "", headerLevel + " says otherwise", headerPolicy + " says otherwise":
		default:
			t.Errorf("%q", why)
		}
	})
}
