package config

import (
	"path/filepath"
	"strings"
)

// Values of the tag path: which texts of a key are paths.
const (
	pathFile   = "file"   // all
	pathScheme = "scheme" // those after one of pathSchemes
)

var pathSchemes = []string{"sqlite://", "file:", "unix://"}

// beside returns the text of a key with a relative path resolved: it is in the folder of the configuration file. $BARDO_HOME at its beginning is
// replaced later.
func (d *decoder) beside(f field, text string) string {
	scheme, path := "", text
	if f.path == pathScheme {
		for _, s := range pathSchemes {
			if rest, ok := strings.CutPrefix(text, s); ok {
				scheme, path = s, rest
			}
		}
		if scheme == "" {
			return text
		}
	}
	if path == "" || strings.HasPrefix(path, "$BARDO_HOME") || filepath.IsAbs(path) {
		return text
	}
	return scheme + filepath.Join(d.dir, path)
}
