package settings_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsUseTheConfigurationOfTheGatewayThatRuns without -c, except those that start something.
func TestCommandsUseTheConfigurationOfTheGatewayThatRuns(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range []string{"settings.Starting(", "settings.ForStart("} {
			if !bytes.Contains(text, []byte(name)) {
				continue
			}
			if seen++; filepath.Dir(path) != "../run" {
				t.Errorf("%s calls %s…), which does not look for a gateway that runs: settings.ForCommand does", path, name)
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d calls were found: %v", seen, err)
	}
}
