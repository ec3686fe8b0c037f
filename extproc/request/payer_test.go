package request

import (
	"testing"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
)

// A caller without a key gets the demo provider only, unless the operator admits everyone.
func TestWithoutAKeyOnlyTheDemoServes(t *testing.T) {
	rt := runtime.Config{Keyless: runtime.KeylessDemo, Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"demo": {Free: true}, "paid": {}})}
	open := rt
	open.Keyless = runtime.KeylessAnyone
	demo, paid := policy.Resolution{Provider: "demo"}, policy.Resolution{Provider: "paid"}
	for _, row := range []struct {
		about     string
		rt        *runtime.Config
		anonymous bool
		found     []policy.Resolution
		refused   bool
	}{
		{"the demo", &rt, true, []policy.Resolution{demo}, false},
		{"a provider that costs something", &rt, true, []policy.Resolution{paid}, true},
		{"one behind the demo", &rt, true, []policy.Resolution{demo, paid}, true},
		{"with a key", &rt, false, []policy.Resolution{paid}, false},
		{"where everybody is admitted", &open, true, []policy.Resolution{paid}, false},
	} {
		v := View{Config: row.rt}
		v.Principal.Anonymous, v.Found = row.anonymous, row.found
		if err := v.CheckKeyless(); (err != nil) != row.refused {
			t.Errorf("%s: %v", row.about, err)
		}
	}
}
