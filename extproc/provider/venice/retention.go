package venice

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
)

var _ provider.Retention = Adapter{}

// The headers by which Venice confirms that it retains nothing of a call.
const (
	headerLevel  = "x-venice-privacy-level"
	headerPolicy = "x-venice-retention-policy"
)

// confirmed are the values of each header that confirm it. A level above "private" includes it.
var confirmed = [...]struct {
	name   string
	values []string
}{
	{headerLevel, []string{"private", "tee", "e2e"}},
	{headerPolicy, []string{"none"}},
}

// Retains implements provider.Retention. A repeated header must confirm it every time.
func (Adapter) Retains(h header.List) string {
	for i := range confirmed {
		c, found := &confirmed[i], false
		for _, f := range h {
			if f.Name != c.name {
				continue
			}
			if found = slices.Contains(c.values, strings.ToLower(strings.TrimSpace(f.Value))); !found {
				return c.name + " says otherwise"
			}
		}
		if !found {
			return c.name + " is missing"
		}
	}
	return ""
}
