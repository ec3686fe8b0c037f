package chat_test

import (
	"reflect"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
)

func TestD20PrecedenceOfProfiles(t *testing.T) {
	for _, row := range []struct {
		about      string
		profile    *chat.Profile
		own, want  chat.Params
		overridden []string
	}{
		{about: "no profile", own: chat.Params{Temperature: "0.2"}, want: chat.Params{Temperature: "0.2"}},
		{
			about: "a default stands where the client says nothing", profile: &chat.Profile{Default: chat.Params{Temperature: "0.3", TopP: "0.9"}},
			own: chat.Params{Temperature: "0"}, want: chat.Params{Temperature: "0", TopP: "0.9"},
		},
		{
			about: "a locked value overrides the client's, and says so", profile: &chat.Profile{Locked: chat.Params{Temperature: "0.1", TopK: "40"}},
			own: chat.Params{Temperature: "1"}, want: chat.Params{Temperature: "0.1", TopK: "40"}, overridden: []string{"temperature"},
		},
		{
			about: "a locked value that the client named itself overrides nothing", profile: &chat.Profile{Locked: chat.Params{Temperature: "0.1"}},
			own: chat.Params{Temperature: "0.1"}, want: chat.Params{Temperature: "0.1"},
		},
		{
			about: "a client's budget keeps a default effort away", profile: &chat.Profile{Default: chat.Params{Effort: "high"}},
			own: chat.Params{ThinkingBudget: 2000}, want: chat.Params{ThinkingBudget: 2000},
		},
		{
			about: "a locked effort takes the place of a client's budget", profile: &chat.Profile{Locked: chat.Params{Effort: "max"}},
			own: chat.Params{ThinkingBudget: 2000}, want: chat.Params{Effort: "max"}, overridden: []string{"effort"},
		},
		{
			about: "stops and schemas are the client's, else the profile's", profile: &chat.Profile{Default: chat.Params{Stop: []string{"x"}, Schema: []byte(`{}`), SchemaName: "s"}},
			own: chat.Params{Stop: []string{"y"}}, want: chat.Params{Stop: []string{"y"}, Schema: []byte(`{}`), SchemaName: "s"},
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			got, overridden := row.profile.Over(row.own)
			if !reflect.DeepEqual(got, row.want) || !slices.Equal(overridden, row.overridden) {
				t.Errorf("got %+v and %q, want %+v and %q", got, overridden, row.want, row.overridden)
			}
		})
	}
}
