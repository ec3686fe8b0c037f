package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"bardo.money/gateway/internal/config"
)

var variableName = regexp.MustCompile(`"([A-Z]+(?:_[A-Z0-9]+)+)"`)

// Each variable of the environment that the configuration reads has its row.
func TestEveryVariableIsDocumented(t *testing.T) {
	table := config.Tables(kinds...)["variables"]
	for _, file := range []string{"environment.go", "kinds_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range variableName.FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(table, "| `"+m[1]+"` |") {
				t.Errorf("the table of variables has no row of %s, which %s reads", m[1], file)
			}
		}
	}
}
