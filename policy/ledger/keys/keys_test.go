package keys

import (
	"testing"

	"bardo.money/gateway/policy"
)

// TestRequestsOfAKeyBelongToItsProjectAndOwner, also without limits of these.
func TestRequestsOfAKeyBelongToItsProjectAndOwner(t *testing.T) {
	k := Row{ID: "a", Project: "web", groups: groups{project: policy.Budget{ID: "web"}, owner: policy.Budget{ID: "acme"}}}
	if p := k.Principal(); p.Project != "web" || p.Owner != "acme" || len(p.Budgets) != 0 {
		t.Errorf("%+v", p)
	}
}
