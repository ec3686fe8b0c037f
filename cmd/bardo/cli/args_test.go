package cli_test

import (
	"testing"

	"github.com/spf13/cobra"

	"bardo.money/gateway/cmd/bardo/cli"
)

func TestAnUnknownCommandIsAnsweredByTheNearest(t *testing.T) {
	none := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "bardo", Args: cli.NoArgs, Run: none}
	up := &cobra.Command{Use: "up", SuggestFor: []string{"start"}, Run: none}
	keys, config := &cobra.Command{Use: "keys", Run: none}, &cobra.Command{Use: "config", Run: none}
	keys.AddCommand(&cobra.Command{Use: "list", Run: none})
	config.AddCommand(&cobra.Command{Use: "check", Run: none})
	root.AddCommand(up, keys, config)
	for given, want := range map[string]string{
		"key":   `bardo has no command "key"; did you mean keys?`,
		"start": `bardo has no command "start"; did you mean up?`,
		"check": `bardo has no command "check"; did you mean config check?`,
		"list":  `bardo has no command "list"; did you mean keys list?`,
		"fetch": `bardo has no command "fetch", expected config, keys, up`,
	} {
		if err := cli.NoArgs(root, []string{given}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", given, err)
		}
	}
}
